"""Playing a run in this process, and its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import field, frozen

from astuner.contract.schema import Episode, Group, Notice
from astuner_devkit.recorder import LoggedEpisodes, LoggedMetrics, Recorder, read_records

RECORDER = f"{Recorder.__module__}:{Recorder.__qualname__}"


@frozen(kw_only=True, eq=False)
class PlayedRun:
    """The result of a run."""

    directory: Path
    """The run directory."""
    groups: tuple[Group, ...] = ()
    """The groups of the training steps, in the order in which the backbone reported them."""
    validation_groups: tuple[Group, ...] = ()
    """Those of the validations."""
    metrics: Mapping[str, float] = field(factory=dict)
    """The last value of each metric."""
    notices: tuple[str, ...] = ()
    """Notices to the user; the backbone `debug` reports each episode here."""

    @property
    def episodes(self) -> list[Episode]:
        """The episodes of the training steps, siblings side by side."""
        return [episode for group in self.groups for episode in group.episodes]

    @property
    def rewards(self) -> list[float | None]:
        """The reward of each of these episodes; None where it failed or its judge did."""
        return [episode.reward for episode in self.episodes]


def add_recorder(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a project's settings with the recorder added to its loggers (by default the console)."""
    trainer = settings.get("trainer_common", {})
    named = trainer.get("logger", ["console"])
    loggers = [*named] if isinstance(named, list | tuple) else [named]
    return {**settings, "trainer_common": {**trainer, "logger": [*loggers, RECORDER]}}


def play(conf: Path, overrides: Sequence[str] = ()) -> PlayedRun:
    """Play a project whose settings come from `add_recorder`; raises the `AstunerError` of a run that fails."""
    from astuner.runs.driver.launch import start_run
    from astuner.runs.driver.run_request import RunRequest

    return read_run(start_run(RunRequest(conf=conf, overrides=overrides)).directory)


def read_run(directory: Path) -> PlayedRun:
    """Return the result of a run from the recorder's file."""
    records = list(read_records(directory))
    groups = [group for record in records if isinstance(record, LoggedEpisodes) for group in record.groups]
    return PlayedRun(
        directory=directory,
        groups=tuple(group for group in groups if group.split == "train"),
        validation_groups=tuple(group for group in groups if group.split == "validation"),
        metrics={
            name: value for record in records if isinstance(record, LoggedMetrics) for name, value in record.metrics.items()
        },
        notices=tuple(record.text for record in records if isinstance(record, Notice)),
    )
