"""Phoenix and MLflow as their users start them, on loopback, with everything they keep in temporary directories."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tool_episodes import make_group

from astuner_devkit.run_infos import run_info
from astuner_devkit.waiting import until
from astuner_loggers.otel.logger import OtelLogger

START_S = 300.0
"""For a server to come up on a busy machine: both import hundreds of modules for the first time."""


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Start both servers at once; the addresses by name."""
    base = tmp_path_factory.mktemp("servers")
    phoenix, phoenix_grpc, mlflow = (find_free_port() for _ in range(3))
    variables = {
        "HOME": str(base),
        "PHOENIX_WORKING_DIR": str(base / "phoenix"),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(phoenix),
        "PHOENIX_GRPC_PORT": str(phoenix_grpc),
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        # Seven more processes, for what is not tested here.
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "DO_NOT_TRACK": "true",
    }
    store = ["--backend-store-uri", f"sqlite:///{base / 'mlflow.db'}", "--artifacts-destination", str(base / "artifacts")]
    commands = {
        "phoenix": ["serve"],
        "mlflow": ["server", "--host", "127.0.0.1", "--port", str(mlflow), "--workers", "1", *store],
    }
    addresses = {"phoenix": f"http://127.0.0.1:{phoenix}", "mlflow": f"http://127.0.0.1:{mlflow}"}
    health = {"phoenix": f"{addresses['phoenix']}/healthz", "mlflow": f"{addresses['mlflow']}/health"}
    running = {}
    for name, arguments in commands.items():
        with (base / f"{name}.log").open("wb") as log:
            command = [str(Path(sys.executable).parent / name), *arguments]
            # Workers of a server end with its group.
            running[name] = subprocess.Popen(
                command, cwd=base, env=os.environ | variables, stdout=log, stderr=log, start_new_session=True
            )

    def answers(name: str) -> bool:
        assert running[name].poll() is None, (base / f"{name}.log").read_text()
        with suppress(OSError), urllib.request.urlopen(health[name], timeout=60) as answer:
            return bool(answer.status == 200)
        return False

    try:
        for name in commands:
            until(lambda name=name: answers(name), limit_s=START_S)  # type: ignore[misc]
        yield addresses
    finally:
        # They have nothing to save, and take their time to end when they are asked to.
        for process in running.values():
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        for process in running.values():
            process.wait()


@pytest.fixture
def send(tmp_path: Path) -> Callable[..., None]:
    """Send the group of a success, a miss and a failure as a run of this project does; again as its resumed attempt does."""

    def sent(project: str, resumed: bool = False, **options: Any) -> None:
        info = run_info(tmp_path, project_name=project)
        logger = OtelLogger.from_run(OtelLogger.Options(timeout_s=START_S, **options), info)
        if resumed:
            logger.truncate_after(2)
        logger.log_episodes(3, [make_group()])
        logger.close()

    return sent


@pytest.fixture
def run_project(cli: Callable[..., Any], tmp_path: Path) -> Callable[..., None]:
    """Run `astuner run` with the logger and these options on a project of two tasks."""

    def run(**options: Any) -> None:
        from astuner_devkit.project import write_project

        tasks = [{"task_id": name, "main_query": "What is 2 + 2?", "answer": "4"} for name in ("one", "two")]
        settings = {"trainer_common": {"logger": ["console", {"otel": {"timeout_s": START_S, **options}}]}}
        conf = write_project(tmp_path, settings=settings, tasks=tasks)
        answered = cli("run", "--conf", conf, "--backbone", "debug")
        assert answered.code == 0, answered.err
        assert "left out" not in answered.err

    return run


def find_free_port() -> int:
    """Return a port that nothing listens at."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])
