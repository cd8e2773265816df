"""Loggers for astuner: tracking services that show the numbers and episodes of a run."""
