"""Episodes of runs made up on disk."""

from made_up_runs import stored

__all__ = ["stored"]
