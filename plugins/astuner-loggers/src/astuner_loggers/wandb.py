"""The logger `wandb`: Weights & Biases, offline in the run directory unless there is a key."""

from __future__ import annotations

import os
from typing import Literal, Self

from attrs import field, frozen
from attrs.validators import ge, gt

from astuner.contract.protocols import RunInfo
from astuner_loggers.process_logger import ProcessLogger, Service


class WandbLogger(ProcessLogger):
    """Metrics as charts over the step, rewards as histograms, episodes as tables."""

    @frozen(kw_only=True)
    class Options:
        """Options of the logger `wandb`."""

        project: str | None = None
        """Its project; by default the configuration's `project_name`."""
        name: str | None = None
        """The run's name there; by default the configuration's `experiment_name`."""
        mode: Literal["offline", "online"] | None = None
        """`offline` writes only to the directory, for `wandb sync`. By default the value of `WANDB_MODE`, else `online` if
        `WANDB_API_KEY` is set."""
        directory: str = "wandb"
        """Where its files go; relative to the run directory."""
        entity: str | None = None
        """The user or team that the project belongs to."""
        group: str | None = None
        """Groups runs under one heading."""
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
        mode = options.mode or _read_mode()
        return cls(
            Service(
                name="wandb",
                packages=("wandb",),
                requirement="astuner-loggers[wandb]",
                writer="astuner_loggers.writers.wandb:WandbWriter",
                directory=run_info.directory / options.directory,
                project=options.project or run_info.project_name,
                experiment=options.name or run_info.experiment_name,
                where=mode,
                settings={"mode": mode, "entity": options.entity, "group": options.group, "tags": options.tags},
                environment=_environment(run_info, options),
                # Variables that another run of this process may have left; offline, the process has no key at all.
                dropped=("WANDB_SERVICE", "WANDB_RUN", "WANDB_RESUME", "WANDB_MODE") if mode == "online" else ("WANDB_",),
                private_home=mode == "offline",
                episodes=options.episodes,
                timeout_s=options.timeout_s,
            ),
            run_info,
        )


def _read_mode() -> Literal["offline", "online"]:
    named = os.environ.get("WANDB_MODE", "")
    if named in ("online", "run"):
        return "online"
    return "online" if not named and os.environ.get("WANDB_API_KEY") else "offline"


def _environment(run_info: RunInfo, options: WandbLogger.Options) -> dict[str, str]:
    place = run_info.directory / options.directory
    return {
        "WANDB_CACHE_DIR": str(place / "cache"),
        "WANDB_DATA_DIR": str(place / "staging"),
        "WANDB_ERROR_REPORTING": "false",
        "WANDB_INIT_TIMEOUT": f"{options.timeout_s:g}",
    }
