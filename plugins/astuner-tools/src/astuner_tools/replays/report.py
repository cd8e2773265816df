"""The result of a replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from astuner.contract.schema import Split
from astuner.episodes.judging.agreement import Agreement
from astuner.shared.clients.llm_budget import Usage
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
    judging_s: float
    """From the first group to the last verdict."""
    notices: tuple[str, ...]
    """What the report cannot show, and what was damaged."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self, value_serializer=lambda _, __, value: str(value) if isinstance(value, Path) else value)
