"""Trackers: how an episode's recorded calls become samples, and what a model is shown when no workflow decides."""
