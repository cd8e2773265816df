from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from astuner.contract.errors import ConfigError
from astuner.contract.protocols import RunInfo
from astuner.settings.plugins.options import build_options
from astuner_devkit.contracts import LoggerContract
from astuner_loggers.mlflow import MlflowLogger

pytest.importorskip("mlflow")
pytest.importorskip("sqlalchemy")
pytest.importorskip("alembic")


def begin_with(tables: Path, run: Path) -> None:
    place = run / "mlflow"
    place.mkdir(parents=True, exist_ok=True)
    if not (place / "mlflow.db").exists():
        shutil.copy(tables, place / "mlflow.db")


@pytest.mark.slow
class TestMlflow(LoggerContract):
    component = "astuner_loggers.mlflow:MlflowLogger"
    options: ClassVar[Mapping[str, Any]] = {"tags": {"team": "a"}, "timeout_s": 600.0}
    tables: ClassVar[Path]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _tables(cls, empty_mlflow: Path) -> None:
        cls.tables = empty_mlflow

    def prepare(self, directory: Path) -> None:
        begin_with(self.tables, directory / "run")


@pytest.fixture(scope="module")
def run(written: Callable[..., Path], info: RunInfo, empty_mlflow: Path) -> Path:
    begin_with(empty_mlflow, info.directory)
    return written(MlflowLogger, episodes=2)


@pytest.fixture(scope="module")
def tracked(run: Path) -> tuple[Any, Any]:
    """The client, and the one run that it finds."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{run / 'mlflow' / 'mlflow.db'}")
    (found,) = client.search_runs([client.get_experiment_by_name("project").experiment_id])
    return client, found


def history(tracked: tuple[Any, Any], name: str) -> list[tuple[int, float]]:
    client, found = tracked
    return sorted((metric.step, metric.value) for metric in client.get_metric_history(found.info.run_id, name))


def test_a_resumed_run_replaces_the_steps_after_its_checkpoint(tracked: tuple[Any, Any]) -> None:
    assert history(tracked, "reward/mean") == [(1, 0.1), (2, 1.2), (3, 1.3), (4, 1.4)]
    assert history(tracked, "val/pass_at_4") == [(0, 0.5)]
    assert [step for step, _ in history(tracked, "loss/größe")] == [1]


def test_the_last_values_are_those_that_are_left(tracked: tuple[Any, Any]) -> None:
    assert tracked[1].data.metrics["reward/mean"] == 1.4
    assert tracked[1].data.metrics["val/reward/mean"] == 0.25


def test_both_attempts_are_one_run_with_its_end_its_configuration_and_its_name(tracked: tuple[Any, Any]) -> None:
    info, parameters = tracked[1].info, tracked[1].data.params
    assert (info.run_name, info.status) == ("experiment", "FINISHED")
    assert parameters["seed"] == "42"
    assert parameters["plugins.options.mine.api_key"] == "<redacted>"
    assert parameters["plugins.options.mine.password"] == "<redacted>"
    assert parameters["plugins.options.mine.greeting"] == "I am <redacted>"


def test_rewards_and_episodes_are_a_text(tracked: tuple[Any, Any], run: Path) -> None:
    client, found = tracked
    names = [artifact.path for artifact in client.list_artifacts(found.info.run_id, "transcripts")]
    assert names == ["transcripts/step_000001.txt", "transcripts/step_000004.txt"]
    (text,) = [path.read_text() for path in run.rglob("artifacts/transcripts/step_000001.txt")]
    assert text.startswith("rewards: 0, 0.5, 1\n")
    assert "answer *3*" in text
    assert "answer *1*" in text
    assert "answer *0*" not in text


def test_nothing_leaves_the_run_directory(run: Path, machine: Any, secrets_in: Any) -> None:
    assert (machine.reached_for, machine.littered, secrets_in(run)) == ([], [], [])


class Server(ThreadingHTTPServer):
    """As much of a tracking server as a run needs; it keeps what it was sent."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.metrics: list[tuple[str, int, float]] = []
        self.statuses: list[str] = []
        self.artifacts: list[str] = []
        self.runs = 0


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        if "experiments/get-by-name" in self.path:
            self._say({"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "none"}, status=404)
        else:
            self._say({"run": self._run()})

    def do_POST(self) -> None:
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("experiments/create"):
            self._say({"experiment_id": "1"})
        elif self.path.endswith("runs/create"):
            self.server.runs += 1
            self._say({"run": self._run()})
        elif self.path.endswith("runs/update"):
            self.server.statuses.append(sent["status"])
            self._say({"run_info": self._run()["info"]})
        else:
            self.server.metrics += [(one["key"], int(one["step"]), one["value"]) for one in sent.get("metrics", ())]
            self._say({})

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.artifacts.append(self.path.rpartition("/")[2])
        self._say({})

    def log_message(self, *_: object) -> None:
        pass

    def _run(self) -> dict[str, Any]:
        info = {
            "run_id": "r1",
            "run_uuid": "r1",
            "experiment_id": "1",
            "status": "RUNNING",
            "artifact_uri": "mlflow-artifacts:/1/r1",
        }
        return {"info": info, "data": {}}

    def _say(self, answer: Mapping[str, Any], status: int = 200) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        serving = threading.Thread(target=made.serve_forever)
        serving.start()
        yield made
        made.shutdown()
        serving.join()


def test_a_server_is_sent_each_step_once(server: Server, written: Callable[..., Path], machine: Any) -> None:
    before = list(machine.reached_for)
    written(MlflowLogger, tracking_uri=f"http://127.0.0.1:{server.server_port}", directory="served")
    assert [(step, value) for name, step, value in server.metrics if name == "reward/mean"] == [
        (1, 0.1),
        (2, 0.2),
        (3, 0.3),
        (4, 1.4),
    ]
    assert (server.runs, server.statuses) == (1, ["KILLED", "RUNNING", "FINISHED"])
    assert server.artifacts == ["step_000001.txt", "step_000000.txt", "step_000004.txt"]
    assert machine.reached_for == before


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("file:///tmp/mlruns", "refuses to write to it, so take sqlite:///PATH for a file"),
        ("./mlruns", "refuses to write to it, so take sqlite:///PATH for a file"),
        ("sqlite:///", "the path is missing"),
        ("sqlite://mlflow.db", "with three slashes before a relative path"),
        ("postgresql://host/db", "not postgresql:; a tracking server takes all others"),
        ("https://me:my-password@host", "must not hold a password: set MLFLOW_TRACKING_USERNAME"),
    ],
)
def test_a_place_that_cannot_be_written_to_is_refused_with_the_reason(uri: str, reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        build_options(MlflowLogger, {"tracking_uri": uri}, key="trainer_common.logger[0].mlflow")
    assert reason in str(refused.value)
    assert "my-password" not in str(refused.value)


def test_a_database_of_ones_own_lies_relative_to_the_run(info: RunInfo, machine: Any) -> None:
    logger = MlflowLogger.from_run(MlflowLogger.Options(tracking_uri="sqlite:///../all.db"), info)
    logger.close()
    assert logger._service.where == f"sqlite:///{info.directory}/../all.db"
