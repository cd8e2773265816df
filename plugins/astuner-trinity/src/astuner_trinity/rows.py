"""Names of what travels with a row, from the process that plays to the worker that trains. Imports nothing."""

from __future__ import annotations

EPISODE, AGENT, GROUP, VERSION, EXPLORED = "episode", "agent", "group", "version", "explored"
"""In `info`, from the explorer: whose row it is, the oldest weights that sampled its trained tokens, and the explorer's step."""

ROWS, STAMP = "rows_of_step", "stamp_of_step"
"""In `info`, from the end of the explorer's pipeline: how many rows the step has, and a name that no other step has."""

SHARE, STALE, RATE, IDLE = "share", "stale", "rate", "idle"
"""Columns of the batch, from the trainer: the factor of the losses of a row's tokens, whether weights of an earlier step sampled
it, the learning rate, and whether no row of the step has a gradient, so that the weights stay as they are."""

MEASURED = "astuner/"
"""Before the names of what our parts measure, which come back among Trinity's own metrics."""
