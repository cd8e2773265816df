"""Names of a row's extra values, from the playing process to the training worker. Imports nothing."""

from __future__ import annotations

EPISODE, AGENT, GROUP, VERSION, EXPLORED = "episode", "agent", "group", "version", "explored"
"""In `info`, from the explorer: the row's owner, the oldest weights that sampled its trained tokens, and the explorer's step.
Both are counted within the stage."""

UNTRAINED = "untrained_sequences"
"""In `info`, from the explorer: how many sequences of the row's group have no trained token, and so no row."""

COMPARED = "compared"
"""In `info`, from the explorer to the end of its pipeline, where an estimator may compare all episodes of a step."""

ROWS, STAMP = "rows_of_step", "stamp_of_step"
"""In `info`, from the end of the explorer's pipeline: how many rows the step has, and its unique name."""

SAMPLE = "sample"
"""In `info`, from the explorer: the row's position among the samples of its episode that train a token."""

SHARE, STALE, RATE, IDLE = "share", "stale", "rate", "idle"
"""Columns of the batch, from the trainer: the factor of the losses of a row's tokens, whether weights of an earlier step sampled
it, the learning rate, and whether no row of the step has a gradient, so that the weights stay the same."""

ROW, STEP = "row", "train_step"
"""Columns of the batch, from the trainer, for the record of trained tokens: the row's number in the step, negative if it is not
recorded, and the step."""

STREAMS = ("likelihood", "divergence", "reference")
"""What an estimator adds to the loss at each place of the answer, by the fields of `TokenStreams`: in `info`, from the explorer,
packed (`packed_floats`), where there is some; and columns of the batch, of every row, from the trainer."""

MEASURED = "astuner/"
"""The prefix of our metrics, which come back among Trinity's own."""
