"""Fixtures for authors of plugins; pytest finds them through the entry-point group `pytest11`."""
