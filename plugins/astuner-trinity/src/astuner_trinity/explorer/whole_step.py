"""The signal of estimators that compare all episodes of a step: at the end of the explorer's pipeline, which sees all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from attrs import frozen

from astuner.contract.protocols import EstimatorTraits, read_traits
from astuner.contract.schema import Group
from astuner.episodes.judging.advantages import (
    RewardedAgent,
    WeightedSample,
    compute_advantages,
    estimate_advantages,
    list_compared,
)
from astuner_trinity.packed_floats import pack_floats
from astuner_trinity.planned_parts import make_estimator
from astuner_trinity.rows import AGENT, COMPARED, EPISODE, SAMPLE, STREAMS

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from trinity.common.experience import Experience

    from astuner.contract.protocols import Estimator


@frozen(kw_only=True)
class ComparedGroup:
    """The part of a group that an estimator reads, as each row of the group carries it: other operators may drop rows."""

    group: str
    plan: str
    """The file that the run is planned from."""
    entries: Sequence[Sequence[RewardedAgent]]
    whole: Group | None
    """Only for an estimator that sees episodes."""
    by_agent: bool

    @classmethod
    def of(cls, group: Group, plan: str, estimator: Estimator, *, by_agent: bool) -> ComparedGroup:
        """Read a judged group."""
        whole = group if read_traits(estimator, EstimatorTraits).gives_streams else None
        entries = list_compared(group, by_agent=by_agent)
        return cls(group=group.key, plan=plan, entries=entries, whole=whole, by_agent=by_agent)


def compare_step(rows: Sequence[Experience], estimator: Estimator | None = None) -> None:
    """Give the rows of a step the signal of the whole step, if they carry what is compared.

    The estimator is that of the run which played them, unless one is given.
    """
    carried: dict[str, ComparedGroup] = {}
    for row in rows:
        compared = row.info.pop(COMPARED, None)
        if compared is not None:
            carried[compared.group] = compared
    if not carried:
        return
    groups = [carried[name] for name in sorted(carried)]
    estimator = estimator or make_estimator(groups[0].plan)
    if whole := [group.whole for group in groups if group.whole is not None]:
        _signal_step(rows, compute_advantages(whole, estimator, by_agent=groups[0].by_agent))
        return
    entries = [siblings for group in groups for siblings in group.entries]
    found = estimate_advantages(entries, estimator)
    taken: dict[Any, int] = {}
    for row in sorted(rows, key=lambda row: (row.eid.task, row.eid.run, row.eid.step)):
        owner = (row.info.get(EPISODE), row.info.get(AGENT))
        if owner not in found:
            continue
        trained, start = int(row.action_mask.sum()), taken.get(owner, 0)
        taken[owner] = start + trained
        value = found[owner]
        own = np.full(trained, value) if isinstance(value, float) else value[start : start + trained]
        row.advantages = torch.zeros(len(row.action_mask))
        row.advantages[row.action_mask.bool()] = torch.from_numpy(own).float()


def set_signal(experience: Experience, row: WeightedSample) -> None:
    """Give a row what each place of its answer counts in each term of the loss."""
    mask = experience.action_mask.bool()

    def spread(values: NDArray[np.float64]) -> torch.Tensor:
        placed = torch.zeros(len(mask))
        placed[mask] = torch.tensor(values, dtype=torch.float32)
        return placed

    experience.advantages = spread(row.spread())
    for name in STREAMS:
        experience.info.pop(name, None)
        if name in row.others:
            experience.info[name] = pack_floats(spread(row.others[name]).numpy())


def _signal_step(rows: Sequence[Experience], weighed: Sequence[WeightedSample]) -> None:
    known = {(row.info.get(EPISODE), row.info.get(SAMPLE)): row for row in rows}
    numbers: dict[str, int] = {}
    for one in weighed:
        if one.sample.trained:
            episode = one.sample.episode_id
            numbers[episode] = numbers.get(episode, -1) + 1
            if (experience := known.get((episode, numbers[episode]))) is not None:
                set_signal(experience, one)
