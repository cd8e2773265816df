"""A run on disk: the directory and its lock, checkpoints, the store of episodes."""
