"""Trackers: how samples are read off the recorded calls of an episode, and what a model is shown where no workflow decides."""
