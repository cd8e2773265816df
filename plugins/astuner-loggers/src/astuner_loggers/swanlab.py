"""The logger `swanlab`: SwanLab, offline in the run directory, without an account."""

from __future__ import annotations

from typing import Literal, Self

from attrs import field, frozen
from attrs.validators import ge, gt

from astuner.contract.protocols import RunInfo
from astuner_loggers.process_logger import ProcessLogger, Service


class SwanlabLogger(ProcessLogger):
    """Metrics as charts, rewards as a bar chart, episodes as text."""

    @frozen(kw_only=True)
    class Options:
        """Options of the logger `swanlab`."""

        project: str | None = None
        """Its project; by default the configuration's `project_name`."""
        name: str | None = None
        """The run's name there; by default the configuration's `experiment_name`."""
        mode: Literal["offline", "local", "online"] = "offline"
        """`offline` writes only to the directory, for `swanlab sync`; `local` writes what `swanlab watch` shows, and needs the
        package `swanlab[dashboard]`; `online` needs `SWANLAB_API_KEY`, or a login before."""
        directory: str = "swanlab"
        """Where its files go; relative to the run directory."""
        workspace: str | None = None
        """The user or organisation that the project belongs to."""
        tags: tuple[str, ...] = ()
        """Labels of the run."""
        episodes: int = field(default=3, validator=ge(0))
        """How many episodes of a step are written as text, from the lowest to the highest reward; 0 for none."""
        timeout_s: float = field(default=60.0, validator=gt(0))
        """Longest wait for one report, the start included; a slower service is left out and the run continues."""

    @classmethod
    def from_run(cls, options: Options | None, run_info: RunInfo) -> Self:
        """Make the logger of a run."""
        options = options or cls.Options()
        place = run_info.directory / options.directory
        online = options.mode == "online"
        return cls(
            Service(
                name="swanlab",
                packages=("swanlab", "swanboard") if options.mode == "local" else ("swanlab",),
                requirement="swanlab[dashboard]" if options.mode == "local" else "astuner-loggers[swanlab]",
                writer="astuner_loggers.writers.swanlab:SwanlabWriter",
                directory=place,
                project=options.project or run_info.project_name,
                experiment=options.name or run_info.experiment_name,
                where=options.mode,
                settings={"mode": options.mode, "workspace": options.workspace, "tags": options.tags},
                # Its variables can set even the id of the run; offline, the process has no key at all.
                dropped=("SWANLAB_RUN", "SWANLAB_MODE", "SWANLAB_EXP", "SWANLAB_PROJ") if online else ("SWANLAB_",),
                private_home=not online,
                episodes=options.episodes,
                timeout_s=options.timeout_s,
            ),
            run_info,
        )
