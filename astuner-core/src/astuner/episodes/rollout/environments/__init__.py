"""Environments of episodes: their choice, their lifetime, and the loop in which one leads."""
