"""The index of a run's episodes, in the user's cache: made by a child process, read by the pages."""
