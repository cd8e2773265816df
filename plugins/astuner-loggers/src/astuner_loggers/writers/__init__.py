"""What runs in the process of a tracking service's library: one writer per service, and what they share.

Nothing here imports `astuner`: the process must start quickly, and hold only the library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from attrs import frozen

Status = Literal["finished", "failed", "interrupted"]


@frozen(kw_only=True)
class TrackedRun:
    """What a writer starts or continues."""

    directory: Path
    project: str
    experiment: str
    where: str
    settings: Mapping[str, Any]
    parameters: Mapping[str, Any]
    """The configuration, nested."""
    run_id: str | None
    """The id of the run to continue; None starts a new one."""
    rows: int
    """Number of reports written to it."""


@frozen(kw_only=True)
class EpisodeText:
    """An episode as text."""

    id: str
    reward: float
    text: str


class Writer(Protocol):
    """Writes with the library of one service. Any exception ends it."""

    def open(self, run: TrackedRun) -> str:
        """Start or continue a run, and return its id."""
        ...

    def forget_after(self, step: int) -> bool:
        """Remove later steps; False if the service cannot, so that they are not written again."""
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
