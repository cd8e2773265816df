"""The logger `trackio`: a SQLite database in the run directory, with its own dashboard."""

from __future__ import annotations

from typing import Self

from attrs import field, frozen
from attrs.validators import ge, gt

from astuner.contract.protocols import RunInfo
from astuner_loggers.process_logger import ProcessLogger, Service


class TrackioLogger(ProcessLogger):
    """Metrics as charts, rewards as histograms, episodes as tables."""

    @frozen(kw_only=True)
    class Options:
        """Options of the logger `trackio`."""

        project: str | None = None
        """Its project; by default the configuration's `project_name`."""
        name: str | None = None
        """The run's name there; by default the configuration's `experiment_name`."""
        directory: str = "trackio"
        """Where the database goes; relative to the run directory."""
        episodes: int = field(default=3, validator=ge(0))
        """How many episodes of a step are written as text, from the lowest to the highest reward; 0 for none."""
        timeout_s: float = field(default=60.0, validator=gt(0))
        """Longest wait for one report, the start included; after that the logger is left out and the run continues."""

    @classmethod
    def from_run(cls, options: Options | None, run_info: RunInfo) -> Self:
        """Make the logger of a run."""
        options = options or cls.Options()
        place = run_info.directory / options.directory
        return cls(
            Service(
                name="trackio",
                packages=("trackio",),
                requirement="astuner-loggers[trackio]",
                writer="astuner_loggers.writers.trackio:TrackioWriter",
                directory=place,
                project=options.project or run_info.project_name,
                experiment=options.name or run_info.experiment_name,
                where="local",
                # It asks the Hugging Face hub for the user, and one variable suffices to make it write there.
                environment={"TRACKIO_DIR": str(place), "HF_HUB_OFFLINE": "1"},
                dropped=("TRACKIO_", "HF_", "HUGGING_FACE_"),
                episodes=options.episodes,
                timeout_s=options.timeout_s,
            ),
            run_info,
        )
