"""What a replay is asked for: the options of `astuner replay` and of `astuner.replay`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from astuner.contract.schema import Split
from astuner.runs.inspection.run import Run


@frozen(kw_only=True)
class ReplayRequest:
    """Which stored episodes are scored again, by which judges, and where the verdicts go."""

    run: Run
    conf: Path
    overrides: Sequence[str] = ()
    judge: str | None = None
    """That of `choose_scoring`."""
    out: Path | None = None
    """That of `choose_directory`."""
    split: Split | None = None
    """None: the episodes of training and of validations."""
    step: int | None = None
    """Only those of a step."""
