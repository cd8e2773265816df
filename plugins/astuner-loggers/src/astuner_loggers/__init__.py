"""Loggers for astuner: where the numbers and episodes of a run can be looked at."""
