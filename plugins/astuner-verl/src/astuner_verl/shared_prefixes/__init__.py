"""Passes in which rows share what they have in common: a prompt is computed once for all episodes of its task."""
