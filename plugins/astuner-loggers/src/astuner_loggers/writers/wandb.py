"""Writes with `wandb`."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from astuner_loggers.writers import EpisodeText, Status, TrackedRun

_EXIT_CODES: Mapping[Status, int] = {"finished": 0, "failed": 1, "interrupted": 130}
_SETTINGS: Mapping[str, Any] = {
    # The writing process is of no interest; run.json describes the run's.
    "console": "off",
    "disable_code": True,
    "disable_git": True,
    "x_disable_machine_info": True,
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_save_requirements": False,
    "x_transaction_log_flush_interval": 1.0,
}
"""Those that begin with `x_` are internal to the library, and not in every release."""


class WandbWriter:
    """One row of the history per report, with the step as one of its values.

    Rows of wandb can only be appended, and one with a lower step than the last is dropped. Reports may come out of order, since
    a trainer and its rollouts count their own steps; so rows are numbered, and charts use the `step` in them.
    """

    def open(self, run: TrackedRun) -> str:
        """Start or continue a run; an offline one continues in a new directory under the same id."""
        import wandb

        online = run.settings["mode"] == "online"
        run_id = run.run_id or secrets.token_hex(4)
        self._row = run.rows
        self._run: Any = wandb.init(
            dir=str(run.directory),
            mode=run.settings["mode"],
            project=run.project,
            name=run.experiment,
            id=run_id,
            resume="allow" if online else None,
            entity=run.settings["entity"],
            group=run.settings["group"],
            tags=run.settings["tags"],
            config=dict(run.parameters),
            settings=wandb.Settings(**{name: value for name, value in _SETTINGS.items() if name in wandb.Settings.model_fields}),
        )
        self._run.define_metric("step", hidden=True)
        self._run.define_metric("*", step_metric="step")
        return run_id

    def forget_after(self, step: int) -> bool:
        """Rows cannot be removed."""
        return False

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write a row."""
        self._write({"step": step, **metrics})

    def log_episodes(self, step: int, prefix: str, rewards: Sequence[float], shown: Sequence[EpisodeText]) -> None:
        """Write a histogram and a table."""
        import numpy as np
        import wandb

        rows = [[one.id, one.reward, one.text] for one in shown]
        self._write(
            {
                "step": step,
                f"{prefix}reward/distribution": wandb.Histogram(np_histogram=np.histogram(rewards)),
                f"{prefix}transcripts": wandb.Table(columns=["episode", "reward", "transcript"], data=rows),
            }
        )

    def close(self, status: Status) -> None:
        """End the run."""
        self._run.finish(exit_code=_EXIT_CODES[status])

    def _write(self, row: dict[str, Any]) -> None:
        self._run.log(row, step=self._row, commit=True)
        self._row += 1
