"""The logger `mlflow`: a SQLite database in the run directory, or a tracking server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import urlsplit

from attrs import Attribute, field, frozen
from attrs.validators import ge, gt, optional

from astuner.contract.protocols import RunInfo
from astuner_loggers.process_logger import ProcessLogger, Service

_SQLITE = "sqlite:///"


def _check_tracking_uri(_: Any, attribute: Attribute[Any], value: str) -> None:
    scheme = value.partition(":")[0] if ":" in value else ""
    accepted = f"'{attribute.name}' is http://…, https://… or {_SQLITE}PATH"
    if scheme == "file" or not scheme:
        raise ValueError(
            f"{accepted}: MLflow no longer develops its file store and refuses to write to it, so take {_SQLITE}PATH for a file"
        )
    if scheme == "sqlite" and not value.removeprefix(_SQLITE).strip("/"):
        raise ValueError(f"{accepted}: the path is missing")
    if scheme == "sqlite" and not value.startswith(_SQLITE):
        raise ValueError(f"{accepted}, with three slashes before a relative path and four before an absolute one")
    if scheme not in ("http", "https", "sqlite"):
        raise ValueError(f"{accepted}, not {scheme}:; a tracking server takes all others")
    if scheme != "sqlite" and "@" in urlsplit(value).netloc:
        raise ValueError(
            f"'{attribute.name}' must not hold a password: set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
        )


class MlflowLogger(ProcessLogger):
    """Metrics as charts, the configuration as parameters, rewards and episodes as a text per step."""

    @frozen(kw_only=True)
    class Options:
        """Options of the logger `mlflow`."""

        tracking_uri: str | None = field(default=None, validator=optional(_check_tracking_uri))
        """Where it writes: `http://…` or `https://…` of a tracking server, or `sqlite:///PATH`, relative to the run directory. By
        default `mlflow.db` in the directory."""
        project: str | None = None
        """The experiment, as MLflow calls it; by default the configuration's `project_name`."""
        name: str | None = None
        """The run's name there; by default the configuration's `experiment_name`."""
        directory: str = "mlflow"
        """Where its files go; relative to the run directory."""
        tags: Mapping[str, str] = field(factory=dict)
        """Labels of the run, with their values."""
        episodes: int = field(default=3, validator=ge(0))
        """How many episodes of a step are written as text, from the lowest to the highest reward; 0 for none."""
        timeout_s: float = field(default=60.0, validator=gt(0))
        """Longest wait for one report, the start included; a slower server is left out and the run continues."""

    @classmethod
    def from_run(cls, options: Options | None, run_info: RunInfo) -> Self:
        """Make the logger of a run."""
        options = options or cls.Options()
        place = (run_info.directory / options.directory).absolute()
        uri = options.tracking_uri or f"{_SQLITE}{place / 'mlflow.db'}"
        local = uri.startswith(_SQLITE)
        if local:
            database = run_info.directory.absolute() / uri.removeprefix(_SQLITE)
            uri = f"{_SQLITE}{database}"
        return cls(
            Service(
                name="mlflow",
                packages=("mlflow", "sqlalchemy", "alembic") if local else ("mlflow",),
                requirement="astuner-loggers[mlflow]",
                writer="astuner_loggers.writers.mlflow:MlflowWriter",
                directory=place,
                project=options.project or run_info.project_name,
                experiment=options.name or run_info.experiment_name,
                where=uri,
                settings={"tracking_uri": uri, "tags": dict(options.tags)},
                environment=_environment(options),
                dropped=("MLFLOW_", "DATABRICKS_") if local else ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT", "MLFLOW_TRACKING_URI"),
                private_home=local,
                episodes=options.episodes,
                timeout_s=options.timeout_s,
            ),
            run_info,
        )


def _environment(options: MlflowLogger.Options) -> dict[str, str]:
    # By default MLflow retries for a quarter of an hour. A timeout of half the wait leaves time for a second try.
    tries = {"MLFLOW_HTTP_REQUEST_TIMEOUT": str(max(1, int(options.timeout_s / 2))), "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2"}
    chosen = {name: os.environ.get(name, value) for name, value in tries.items()}
    return {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "GIT_PYTHON_REFRESH": "quiet", **chosen}
