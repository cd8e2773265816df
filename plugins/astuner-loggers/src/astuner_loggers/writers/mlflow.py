"""Writes with `mlflow`, only through its client: the fluent interface has a current run per thread."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from astuner_loggers.writers import EpisodeText, Status, TrackedRun

_STATES: Mapping[Status, str] = {"finished": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}
_PARAMETERS_AT_ONCE = 100
_METRICS_AT_ONCE = 1000
_LONGEST_PARAMETER = 6000
_REFUSED = re.compile(r"[^\w\-. :/]")
_SQLITE = "sqlite:///"

_LATEST = """
INSERT INTO latest_metrics (key, value, timestamp, step, is_nan, run_uuid)
SELECT key, value, timestamp, step, is_nan, run_uuid FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY key ORDER BY step DESC, timestamp DESC, value DESC) AS place
    FROM metrics WHERE run_uuid = ?
) WHERE place = 1
"""
"""MLflow stores the last value of each metric separately."""


class MlflowWriter:
    """Metrics, parameters, and an artifact for the episodes of each step."""

    def open(self, run: TrackedRun) -> str:
        """Start or continue a run."""
        from mlflow import MlflowClient

        uri: str = run.settings["tracking_uri"]
        self._client = MlflowClient(tracking_uri=uri)
        self._database = Path(uri.removeprefix(_SQLITE)) if uri.startswith(_SQLITE) else None
        if run.run_id is not None:
            self._run_id = run.run_id
            self._client.update_run(self._run_id, status="RUNNING")
            return self._run_id
        made = self._client.create_run(self._experiment(run.project), run_name=run.experiment, tags=dict(run.settings["tags"]))
        self._run_id = str(made.info.run_id)
        self._log_parameters(run.parameters)
        return self._run_id

    def forget_after(self, step: int) -> bool:
        """Remove the values of later steps from a local database: the interface cannot."""
        if self._database is None:
            return False
        with closing(sqlite3.connect(self._database, timeout=30)) as database, database:
            database.execute("DELETE FROM metrics WHERE run_uuid = ? AND step > ?", (self._run_id, step))
            database.execute("DELETE FROM latest_metrics WHERE run_uuid = ?", (self._run_id,))
            database.execute(_LATEST, (self._run_id,))
        return True

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write numbers; `@` in a name, which MLflow refuses, becomes `_at_`."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        values = [Metric(_to_accepted_name(name), value, now, step) for name, value in metrics.items()]
        for start in range(0, len(values), _METRICS_AT_ONCE):
            self._client.log_batch(self._run_id, metrics=values[start : start + _METRICS_AT_ONCE])

    def log_episodes(self, step: int, prefix: str, rewards: Sequence[float], shown: Sequence[EpisodeText]) -> None:
        """Write all rewards and the transcripts as a text."""
        lines = [f"rewards: {', '.join(f'{reward:g}' for reward in rewards)}", ""]
        lines += [f"{one.text}\n" for one in shown]
        place = f"{prefix}transcripts/step_{step:06}.txt"
        try:
            self._client.log_text(self._run_id, "\n".join(lines), place)
        except Exception as error:
            raise RuntimeError(f"the transcripts cannot be stored; set 'episodes: 0' to write none: {error}") from error

    def close(self, status: Status) -> None:
        """End the run."""
        self._client.set_terminated(self._run_id, status=_STATES[status])

    def _experiment(self, name: str) -> str:
        found = self._client.get_experiment_by_name(name)
        if found is not None:
            return str(found.experiment_id)
        place = None if self._database is None else self._database.with_name("artifacts").as_uri()
        return str(self._client.create_experiment(name, artifact_location=place))

    def _log_parameters(self, tree: Mapping[str, Any]) -> None:
        from mlflow.entities import Param

        # Two keys that differ only in a character that MLflow refuses would be one parameter with two values.
        named = {_to_accepted_name(key): str(value)[:_LONGEST_PARAMETER] for key, value in _walk_leaves(tree)}
        found = [Param(key, value) for key, value in named.items()]
        for start in range(0, len(found), _PARAMETERS_AT_ONCE):
            self._client.log_batch(self._run_id, params=found[start : start + _PARAMETERS_AT_ONCE])


def _to_accepted_name(name: str) -> str:
    return _REFUSED.sub("_", name.replace("@", "_at_"))


def _walk_leaves(tree: Mapping[str, Any], start: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _walk_leaves(value, f"{start}{key}.")
        else:
            yield f"{start}{key}", value
