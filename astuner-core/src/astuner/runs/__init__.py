"""A run on disk and its life: directory, lock, episode store, state, the loop that logs and ends it."""
