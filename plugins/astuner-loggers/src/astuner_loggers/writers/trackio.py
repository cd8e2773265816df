"""Writes with `trackio`."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from astuner_loggers.writers import EpisodeText, Status, TrackedRun


class TrackioWriter:
    """Rows of a SQLite database, in the directory that `TRACKIO_DIR` names."""

    def open(self, run: TrackedRun) -> str:
        """Start or continue a run; trackio finds it by name, so a later one of the same name hides it."""
        import trackio
        from trackio.sqlite_storage import SQLiteStorage

        self._database = Path(SQLiteStorage.get_project_db_path(run.project))
        found = SQLiteStorage.get_latest_run_record_by_name(run.project, run.experiment) if run.run_id else None
        if found is not None and found["id"] != run.run_id:
            # Checked before trackio starts: at the end of the process it would finish the other run.
            raise RuntimeError(
                f"the last run '{run.experiment}' of the project '{run.project}' in {run.directory} is another than the one that "
                "is resumed, which trackio then cannot continue: give each run its own 'name' or 'directory'"
            )
        self._run: Any = trackio.init(
            project=run.project,
            name=run.experiment,
            resume="allow" if run.run_id else "never",
            config=dict(run.parameters),
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        return str(self._run.id)

    def forget_after(self, step: int) -> bool:
        """Remove the rows of later steps of this run; a project holds several."""
        if self._database.exists():
            with closing(sqlite3.connect(self._database, timeout=30)) as database, database:
                database.execute("DELETE FROM metrics WHERE run_id = ? AND step > ?", (self._run.id, step))
        return True

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write a row."""
        self._run.log(dict(metrics), step=step)

    def log_episodes(self, step: int, prefix: str, rewards: Sequence[float], shown: Sequence[EpisodeText]) -> None:
        """Write a histogram and a table."""
        import trackio

        rows = [[one.id, one.reward, one.text] for one in shown]
        self._run.log(
            {
                f"{prefix}reward/distribution": trackio.Histogram(list(rewards)),
                f"{prefix}transcripts": trackio.Table(columns=["episode", "reward", "transcript"], data=rows),
            },
            step=step,
        )

    def close(self, status: Status) -> None:
        """Write the rest."""
        self._run.finish()
