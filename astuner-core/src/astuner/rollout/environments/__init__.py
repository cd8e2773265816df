"""Environments of episodes: which one, its life from making to closing, and the loop in which it leads."""
