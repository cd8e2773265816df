"""Keeps the verdicts of judges on disk, so that the same episodes are judged once."""
