"""The result of a replay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from astuner.contract.schema import Split
from astuner.shared.clients.llm_budget import Usage
from astuner_tools.replays.agreement import Agreement
from astuner_tools.replays.trained_signal import TrainingChange


@frozen(kw_only=True)
class SplitReport:
    """What changed in the episodes of a split."""

    split: Split
    steps: int
    agreement: Agreement
    training: TrainingChange | None
    """None for validations."""


@frozen(kw_only=True)
class ReplayReport:
    """What a replay found."""

    run: Path
    directory: Path
    """A run directory with the episodes and their new verdicts."""
    splits: tuple[SplitReport, ...]
    usage: Usage
    """What the judges have asked of LLMs."""
    over_budget: tuple[str, ...]
    """Splits of which the judges left more episodes without a reward than `rollout.failure_budget` allows, in words."""
    judging_s: float
    """From the first group to the last verdict."""
    notices: tuple[str, ...]
    """What the report cannot show, and what was damaged."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self, value_serializer=lambda _, __, value: str(value.absolute()) if isinstance(value, Path) else value)


def find_over_budget(splits: Sequence[SplitReport], budget: float) -> Iterator[str]:
    """Yield each split of which the judges left a larger share without a reward than a run allows, with an example."""
    for one in splits:
        found = one.agreement
        if found.unjudged > budget * found.episodes:
            reason = next(iter(found.judge_failures))
            yield (
                f"{found.unjudged} of {found.episodes} episodes ({one.split}) have no reward, more than rollout.failure_budget = "
                f"{budget:g} allows, most often {reason}, first in {found.judge_failure_examples[reason]}"
            )
