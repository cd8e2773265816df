"""What `astuner init` writes: a small project for each way to build an agent, from the files below `files`."""
