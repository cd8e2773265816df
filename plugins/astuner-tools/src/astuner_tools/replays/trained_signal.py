"""What a training step would have trained: by the stored rewards, and by the new ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import define, field, frozen

from astuner.contract.protocols import Estimator
from astuner.contract.schema import Group
from astuner.episodes.judging.advantages import ROUNDED, WeightedSample, compute_advantages
from astuner.runs.training.group_filter import PlayedGroups, filter_groups


@frozen(kw_only=True)
class Advantages:
    """How rewards become advantages in a run."""

    estimator: Estimator
    by_agent: bool
    filters: bool
    """Whether groups without signal are left out."""

    def compute(self, groups: Sequence[Group], wanted: int) -> TrainedStep:
        """Return what a step trains of its groups, `wanted` of them if it filters."""
        chosen = PlayedGroups(groups=list(groups))
        if self.filters:
            chosen = filter_groups(groups, wanted, by_agent=self.by_agent)
        rows = compute_advantages(chosen.groups or [], self.estimator, by_agent=self.by_agent)
        return TrainedStep(chosen=chosen, rows=rows)


@frozen(kw_only=True, eq=False)
class TrainedStep:
    """The groups of a step that are trained, and the rows of its batch."""

    chosen: PlayedGroups
    rows: Sequence[WeightedSample]


@define(kw_only=True)
class Trained:
    """What is trained, added up over steps."""

    groups: int = 0
    groups_with_signal: int = 0
    samples: int = 0
    samples_with_signal: int = 0
    """Those with a token whose advantage is not 0."""
    tokens: int = 0
    """Trained tokens of all samples."""
    tokens_with_signal: int = 0
    """Those whose advantage is not 0."""

    def add(self, step: TrainedStep) -> None:
        """Add a step."""
        live = [row for row in step.rows if row.live_tokens]
        self.groups += len(step.chosen.groups or ())
        self.groups_with_signal += len({row.group for row in live})
        self.samples += len(step.rows)
        self.samples_with_signal += len(live)
        self.tokens += sum(row.sample.trained for row in step.rows)
        self.tokens_with_signal += sum(row.live_tokens for row in live)


@define(kw_only=True)
class TrainingChange:
    """What would have been trained instead."""

    stored: Trained = field(factory=Trained)
    new: Trained = field(factory=Trained)
    samples_changed: int = 0
    """Samples with another advantage, or that are in one of both batches only."""
    tokens_reversed: int = 0
    """Tokens whose advantage has the other sign."""

    def add(self, stored: TrainedStep, new: TrainedStep) -> None:
        """Add a step; `new` has the same samples as `stored`, as objects."""
        self.stored.add(stored)
        self.new.add(new)
        before = {id(row.sample): row for row in stored.rows}
        after = {id(row.sample): row for row in new.rows}
        both = before.keys() & after.keys()
        self.samples_changed += len(before) + len(after) - 2 * len(both)
        for key in both:
            then, now = before[key].spread(), after[key].spread()
            self.samples_changed += not np.allclose(then, now, rtol=ROUNDED, atol=ROUNDED)
            self.tokens_reversed += int(np.count_nonzero(then * now < 0))
