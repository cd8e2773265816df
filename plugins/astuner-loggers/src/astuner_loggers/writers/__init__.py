"""What runs in the process of a tracking service's library: one writer per service, and what they share.

Nothing here imports `astuner`: the process is to start quickly, and to hold the library alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from attrs import frozen

Status = Literal["finished", "failed", "interrupted"]


@frozen(kw_only=True)
class TrackedRun:
    """What a writer is to begin, or to go on with."""

    directory: Path
    project: str
    experiment: str
    where: str
    settings: Mapping[str, Any]
    parameters: Mapping[str, Any]
    """The configuration, nested."""
    run_id: str | None
    """Of the run to go on with; None begins one."""
    rows: int
    """So many reports were written to it."""


@frozen(kw_only=True)
class EpisodeText:
    """An episode as text."""

    id: str
    reward: float
    text: str


class Writer(Protocol):
    """Writes with the library of one service. Anything that it raises ends it."""

    def open(self, run: TrackedRun) -> str:
        """Begin or go on with a run, and return its id."""
        ...

    def forget_after(self, step: int) -> bool:
        """Remove what was written of later steps; False where the service cannot, and they are then not written again."""
        ...

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write numbers, of which some may not be finite."""
        ...

    def log_episodes(self, step: int, prefix: str, rewards: Sequence[float], shown: Sequence[EpisodeText]) -> None:
        """Write the distribution of rewards and a few episodes."""
        ...

    def close(self, status: Status) -> None:
        """End the run."""
        ...
