"""A logger that records everything in a file of the run directory."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from attrs import frozen

from astuner.contract.protocols import LoggerTraits, RunInfo
from astuner.contract.schema import Group, Notice


@frozen(kw_only=True)
class LoggedMetrics:
    """One call of `log`."""

    step: int
    metrics: Mapping[str, float]


@frozen(kw_only=True)
class LoggedEpisodes:
    """One call of `log_episodes`."""

    step: int
    groups: tuple[Group, ...]


Record = LoggedMetrics | LoggedEpisodes | Notice


class Recorder:
    """Keeps metrics, groups and notices, whole and in order; `astuner_devkit.run_in_process` reads them back."""

    traits = LoggerTraits(shows_notices=True)
    FILE: ClassVar[str] = "recorded.pickle"

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")

    @classmethod
    def from_run(cls, options: Any, run_info: RunInfo) -> Recorder:
        """Make the logger of a run; it has no options."""
        return cls(run_info.directory / cls.FILE)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Keep the metrics of a step."""
        self._keep(LoggedMetrics(step=step, metrics=dict(metrics)))

    def log_episodes(self, step: int, groups: Sequence[Group]) -> None:
        """Keep the groups of a step."""
        self._keep(LoggedEpisodes(step=step, groups=tuple(groups)))

    def notice(self, text: str, level: Any) -> None:
        """Keep a notice."""
        self._keep(Notice(text=text, level=level))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _keep(self, record: Record) -> None:
        pickle.dump(record, self._file)
        self._file.flush()


def read_records(directory: Path) -> Iterator[Record]:
    """Yield the records of a run, in order."""
    with (directory / Recorder.FILE).open("rb") as file:
        while file.peek(1):
            yield pickle.load(file)
