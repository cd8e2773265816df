"""Advantages of estimators that compare all episodes of a step: at the end of the explorer's pipeline, which sees all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from attrs import frozen

from astuner.contract.schema import Group
from astuner.episodes.judging.advantages import RewardedAgent, estimate_advantages, list_compared
from astuner_trinity.planned_parts import make_estimator
from astuner_trinity.rows import AGENT, COMPARED, EPISODE

if TYPE_CHECKING:
    from trinity.common.experience import Experience

    from astuner.contract.protocols import Estimator


@frozen(kw_only=True)
class ComparedGroup:
    """The part of a group that an estimator reads, as each row of the group carries it: other operators may drop rows."""

    group: str
    plan: str
    """The file that the run is planned from."""
    entries: Sequence[Sequence[RewardedAgent]]

    @classmethod
    def of(cls, group: Group, plan: str, *, by_agent: bool) -> ComparedGroup:
        """Read a judged group."""
        return cls(group=group.key, plan=plan, entries=list_compared(group, by_agent=by_agent))


def compare_step(rows: Sequence[Experience], estimator: Estimator | None = None) -> None:
    """Give the rows of a step the advantages of the whole step, if they carry what is compared.

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
    entries = [siblings for group in groups for siblings in group.entries]
    found = estimate_advantages(entries, estimator or make_estimator(groups[0].plan))
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
