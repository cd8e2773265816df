"""A run: leading it, training, its files, and reading them again."""
