"""What the driver knows of the stage that Trinity is in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attrs import define, field

from astuner_trinity.spool import Lines


@define(eq=False, kw_only=True)
class FollowedStage:
    """A stage of Trinity, or the whole run."""

    name: str
    mode: str
    job: Path
    trainer: Lines
    explorer: Lines
    offset: int
    """The run's step before the stage."""
    token_parts: Path | None = None
    """Where its trainer leaves what it computed of trained tokens; None if nothing is recorded."""
    step: int = 0
    """The last reported step, counted within the stage."""
    at: float | None = None
    """Its time, in seconds since the epoch."""
    saved: int = 0
    validated: set[int] = field(factory=set)
    """Steps of the run."""
    measured: dict[int, Mapping[str, float]] = field(factory=dict)
    """By the explorer's step."""
