"""The record of what was trained, token by token: what the trainer's workers left of a step, as core writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from attrs import define, field

from astuner.contract.schema import Group
from astuner.episodes.judging.advantages import WeightedSample
from astuner.runs.training import MismatchWatch
from astuner.runs.training.token_recorder import TokenRecorder
from astuner.runs.training.token_values import TokenValues, join_passes
from astuner_trinity.token_parts import RowOwner, RowValues, take_step


@define(eq=False, kw_only=True)
class TokenRecord:
    """Takes what the workers left of each step. What is lost is reported, and ends no run."""

    recorder: TokenRecorder
    warn: Callable[[str], object]
    watch: MismatchWatch
    _reported: bool = field(default=False, init=False)
    """Whether rows of other steps were reported."""

    def take(
        self, directory: Path, step: int, groups: Sequence[Group], rows: Sequence[WeightedSample], *, named: int, is_stale: bool
    ) -> dict[str, float]:
        """Record a step of a stage, the step `named` of the run, from its parts in `directory`; return its `mismatch/…`."""
        try:
            if (found := take_step(directory, step)) is None:
                self.warn(f"the trained tokens of step {named} are not recorded: Trinity's trainer left no list of its rows")
                return {}
            owners, passes = found
            numbers = number_rows(rows)
            values = join_rows(passes, numbers, len(rows))
            self._report_missing(owners, numbers, values, named)
            self.recorder.record(named, groups, rows, values)
            # The ratios of rows of older weights are those to these.
            return self.watch.measure_update(named, rows, values, updated=False, is_stale=is_stale)
        except Exception as error:  # noqa: BLE001  # whatever it is, no run may end for its record
            self.warn(f"the trained tokens of step {named} are not recorded: {type(error).__name__}: {error}")
            return {}

    def _report_missing(
        self, owners: Sequence[RowOwner], numbers: Mapping[RowOwner, int], values: TokenValues | None, named: int
    ) -> None:
        own = {owner for owner in owners if owner in numbers}
        trained = sum(owner.tokens for owner in own)
        missing = trained - (0 if values is None else int(values.lengths.sum()))
        if missing:
            self.warn(
                f"{missing} of the {trained} trained tokens of step {named} are not recorded: a worker of the trainer left "
                "nothing of theirs; logs/trinity.log may say why"
            )
        if len(own) < len(set(owners)) and not self._reported:
            self._reported = True
            self.warn(f"step {named} trained rows of other steps: those are not in the record of trained tokens")


def number_rows(rows: Sequence[WeightedSample]) -> dict[RowOwner, int]:
    """Return the positions of the rows that train a token, by their owners."""
    found: dict[RowOwner, int] = {}
    samples: dict[str, int] = {}
    for number, row in enumerate(rows):
        if row.sample.trained:
            episode = row.sample.episode_id
            samples[episode] = samples.get(episode, -1) + 1
            found[RowOwner(episode=episode, sample=samples[episode], tokens=row.sample.trained)] = number
    return found


def join_rows(passes: Sequence[RowValues], numbers: Mapping[RowOwner, int], rows: int) -> TokenValues | None:
    """Return the values of all `rows` of a step, given the positions of some; those of other rows are left out."""
    known = [one for one in passes if one.owner in numbers]
    if not known:
        return None
    stack = np.concatenate([one.stack for one in known], axis=1)
    values = TokenValues.from_stack(stack, [one.owner.tokens for one in known])
    return join_passes([([numbers[one.owner] for one in known], values)], rows)
