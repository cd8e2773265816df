"""A real run with all loggers: what each of them has of it, and what becomes of the run when they fail."""

from __future__ import annotations

import json
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from trace_servers import Answer, serve

from astuner_devkit.contracts.leftovers import find_left_running, list_running

pytest.importorskip("openai", reason="the debug backbone needs astuner-core[rollout]")

ALL = [name for name in ("tensorboard", "wandb", "swanlab", "trackio", "mlflow") if find_spec(name)]
SECRET = "key-of-the-judge-7"
JUDGE = """\
from attrs import frozen

class Mine:
    @frozen(kw_only=True)
    class Options:
        api_key: str

    def __init__(self, options):
        self._key = options.api_key

    def compute_reward(self, task, output):
        return 1.0
"""


@pytest.fixture
def play(cli: Callable[..., Any], tmp_path: Path, machine: Any) -> Callable[..., tuple[Any, Path]]:
    """Run `astuner run` on a tiny project with these loggers; returns what the command said, and the run directory."""

    def started(loggers: Any, *arguments: str) -> tuple[Any, Path]:
        from astuner_devkit.project import write_project

        (tmp_path / "judge.py").write_text(JUDGE)
        judges = {"judges": [{"judge": "./judge.py:Mine", "options": {"api_key": SECRET}}]}
        settings = {"task_judge": judges, "trainer_common": {"logger": loggers}}
        conf = write_project(tmp_path, settings=settings)
        answered = cli("run", "--conf", conf, "--backbone", "debug", *arguments)
        return answered, tmp_path / "launcher_record" / "project.debug"

    return started


def rows(database: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(database)) as opened:
        return opened.execute(query).fetchall()


def test_every_logger_has_the_run(play: Callable[..., tuple[Any, Path]], machine: Any) -> None:
    before = list_running()
    patience = {name: {} if name == "tensorboard" else {"timeout_s": 600.0} for name in ALL}
    loggers = [
        "console",
        *({name: {"mode": "offline", **options} if name == "wandb" else options} for name, options in patience.items()),
    ]
    answered, run = play(loggers)
    assert answered.code == 0, answered.err
    assert "left out" not in answered.err
    (row,) = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    names = {name for name in row if name not in ("step", "kind")}
    assert row["reward/mean"] == 1.0
    if "tensorboard" in ALL:
        (command,) = [line.split(maxsplit=1)[1] for line in answered.err.splitlines() if line.startswith("  curves: ")]
        assert command == f"tensorboard --logdir {run.parent.name}"
    if "trackio" in ALL:
        logged = [json.loads(text) for (text,) in rows(run / "trackio" / "testing.db", "SELECT metrics FROM metrics")]
        assert {name for metrics in logged for name in metrics} == names | {"transcripts", "reward/distribution"}
    if "mlflow" in ALL:
        stored = dict(rows(run / "mlflow" / "mlflow.db", "SELECT key, value FROM latest_metrics WHERE step = 1"))
        assert rows(run / "mlflow" / "mlflow.db", "SELECT status FROM runs") == [("FINISHED",)]
        assert stored == {name: pytest.approx(row[name]) for name in names}
    for pattern in [
        {"wandb": "wandb/wandb/offline-run-*/*.wandb", "swanlab": "swanlab/run-*/*.swanlab"}.get(name) for name in ALL
    ]:
        if pattern is not None:
            (file,) = run.glob(pattern)
            assert [name for name in names if name.encode() not in file.read_bytes()] == []
    told = [path for path in run.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    # What core keeps for the next start is its own.
    littered = [path for path in machine.littered if ".cache/astuner/" not in str(path)]
    assert (told, machine.reached_for, littered) == ([], [], [])
    assert find_left_running(before) == []


@pytest.mark.parametrize("loggers", ["console", ["console", "trackio"], ["console", {"trackio": {"episodes": 0}}], "trackio"])
def test_loggers_are_named_as_a_text_or_a_list(loggers: Any, play: Callable[..., tuple[Any, Path]]) -> None:
    pytest.importorskip("trackio")
    answered, run = play(loggers)
    assert answered.code == 0, answered.err
    assert (run / "trackio" / "testing.db").exists() == (loggers != "console")


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that takes every connection, and answers nothing."""
    listener = socket.create_server(("127.0.0.1", 0))
    held: list[socket.socket] = []

    def accept() -> None:
        with suppress(OSError):
            while True:
                held.append(listener.accept()[0])

    threading.Thread(target=accept, daemon=True).start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    with suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    for connection in held:
        connection.close()


def left_out(answered: Any) -> Sequence[str]:
    return [line.split("'")[1] for line in answered.err.splitlines() if "failed and is left out" in line]


def test_a_run_goes_on_without_services_that_do_not_answer(
    play: Callable[..., tuple[Any, Path]], silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = {"wandb": {"mode": "online"}, "swanlab": {"mode": "online"}, "mlflow": {"tracking_uri": silent}}
    chosen = [{name: {**options, "timeout_s": 3.0}} for name, options in hanging.items() if name in ALL]
    monkeypatch.setenv("WANDB_BASE_URL", silent)
    monkeypatch.setenv("SWANLAB_API_HOST", silent)
    before = list_running()
    answered, run = play(["console", *chosen])
    assert answered.code == 0, answered.err
    assert left_out(answered) == [name for name in hanging if name in ALL]
    assert (run / "metrics.jsonl").exists()
    assert find_left_running(before) == []


def test_a_run_goes_on_without_a_service_that_refuses(
    play: Callable[..., tuple[Any, Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    answered, _ = play(["console", {"mlflow": {"tracking_uri": f"http://127.0.0.1:{port}", "timeout_s": 20.0}}])
    assert answered.code == 0, answered.err
    assert left_out(answered) == ["mlflow"]


def test_a_place_that_mlflow_refuses_is_told_before_the_run(play: Callable[..., tuple[Any, Path]]) -> None:
    pytest.importorskip("mlflow")
    answered, run = play(["console", {"mlflow": {"tracking_uri": "file:./mlruns"}}])
    assert answered.code == 2
    assert "trainer_common.logger[1].mlflow" in answered.err
    assert "take sqlite:///PATH for a file" in answered.err
    assert not run.exists()


def test_a_run_is_on_a_server_of_traces_with_each_of_its_episodes(play: Callable[..., tuple[Any, Path]], machine: Any) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="comes with the extra otel")
    before = list_running()
    with serve(lambda _: Answer()) as server:
        answered, run = play(["console", {"otel": {"endpoint": server.address, "timeout_s": 600.0}}])
        spans = server.read_spans()
        sent = b"".join(posted.body for posted in server.posted)
    assert answered.code == 0, answered.err
    assert "left out" not in answered.err
    identity = json.loads((run / "otel" / "astuner.json").read_text())["run_id"]
    roots = [span["attributes"] for span in spans.values() if span["parent"] is None]
    assert [(root["gen_ai.conversation.id"], root["astuner.reward"]) for root in roots] == [(identity, 1.0)]
    assert {span["resource"]["service.name"] for span in spans.values()} == {"testing"}
    assert SECRET.encode() not in sent
    assert (machine.reached_for, find_left_running(before)) == ([], [])


def test_a_run_goes_on_without_a_server_of_traces(play: Callable[..., tuple[Any, Path]], silent: str) -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="comes with the extra otel")
    answered, run = play(["console", {"otel": {"endpoint": silent, "timeout_s": 1.0}}])
    assert answered.code == 0, answered.err
    assert left_out(answered) == ["otel"]
    assert "1 of 1 episodes did not arrive" in answered.err
    assert (run / "metrics.jsonl").exists()


def test_a_key_in_the_address_of_a_server_is_refused_before_the_run(play: Callable[..., tuple[Any, Path]]) -> None:
    answered, run = play(["console", {"otel": {"endpoint": "http://me:hush-hush@127.0.0.1:1"}}])
    assert answered.code == 2
    assert "trainer_common.logger[1].otel" in answered.err
    assert "must not hold a password" in answered.err
    assert "hush-hush" not in answered.err
    assert not run.exists()
