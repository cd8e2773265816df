"""Faults around real servers: nothing that was paid for is lost, nothing is left behind, and every error names its key."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest

from astuner.shared.processes import attach, list_programs
from astuner_devkit import until

START_S = 300
"""Until a run has started its server and gone so far."""


def servers() -> list[Any]:
    return [record for record in list_programs() if record.kind == "server"]


class Running:
    """A training run under way."""

    def __init__(self, project: Any, *settings: str, steps: int = 200) -> None:
        self.project = project
        self.output = project.home / "output.txt"
        command = project.command("run", "--conf", "tune.yaml", *project.short(steps), *settings)
        with self.output.open("w") as out:
            self.process = subprocess.Popen(
                command, cwd=project.home, env=project.environment, stdout=out, stderr=out, start_new_session=True
            )

    def said(self, text: str) -> bool:
        assert self.process.poll() is None or text in self.output.read_text(), self.output.read_text()
        return text in self.output.read_text()

    def members(self) -> list[psutil.Process]:
        """Return vLLM's processes: API server, engine, worker."""
        [record] = servers()
        found: list[psutil.Process] = attach(record).members()
        return found


@pytest.fixture
def running(project: Any) -> Any:
    begun: list[Running] = []

    def begin(*settings: str, **options: Any) -> Running:
        begun.append(Running(project, *settings, **options))
        return begun[-1]

    yield begin
    for run in begun:
        if run.process.poll() is None:
            run.process.kill()
        run.process.wait()
    until(lambda: list_programs() == [], 60)


def test_a_missing_model_is_named_before_anything_starts(project: Any) -> None:
    done = project.train("--set=model.path=./nowhere")
    assert done.returncode == 2
    assert "astuner.model.path" in done.stderr
    assert "nowhere" in done.stderr


@pytest.mark.slow
def test_a_model_without_weights_is_explained_from_the_log(project: Any) -> None:
    bare = project.home / "bare"
    bare.mkdir()
    for file in (project.home / "model").resolve().iterdir():
        if file.suffix != ".safetensors":
            (bare / file.name).write_bytes(file.read_bytes())
    done = project.cli(
        "run",
        "--conf",
        "tune.yaml",
        "--backbone=debug",
        "--set=rollout.name=vllm",
        f"--set=model.path={bare}",
        "--set=debug.debug_vllm_port=18431",
    )
    assert done.returncode == 1
    assert "vllm-0 did not start" in done.stderr
    assert "model.path" in done.stderr


def test_a_port_of_somebody_else_is_named_with_its_key(project: Any) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = project.cli(
            "run", "--conf", "tune.yaml", "--backbone=debug", "--set=rollout.name=vllm", f"--set=debug.debug_vllm_port={port}"
        )
    assert done.returncode == 2
    assert f"debug.debug_vllm_port: another program listens at port {port}" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, -1], ids=["first process", "last process"])
def test_a_run_survives_the_death_of_its_server(running: Any, victim: int) -> None:
    run = running(steps=12)
    until(lambda: run.said("step 2:"), START_S)
    run.members()[victim].send_signal(signal.SIGKILL)
    run.process.wait(timeout=400)
    assert run.process.returncode == 0, run.output.read_text()
    rows = run.project.metrics
    assert list(range(1, 13)) == [row["step"] for row in rows]
    assert "started again (1 of 3)" in run.output.read_text()
    # After the restart the server has the weights of the trainer again.
    assert max(row.get("mismatch/abs_max", 0.0) for row in rows) < 1e-3
    stored = (run.project.home / "launcher_record" / "calculator" / "episodes").glob("*.jsonl")
    assert any(json.loads(line) for file in stored for line in file.read_text().splitlines())


@pytest.mark.slow
def test_no_episode_dies_with_its_server_even_if_neither_agent_nor_run_tries_again(running: Any, project: Any) -> None:
    agent, begun = project.home / "agent.py", project.home / "begun"
    client = "client = tuner.as_raw_openai_sdk_client()"
    assert client in agent.read_text()
    unforgiving = f"open({str(begun)!r}, 'w').close(); {client}.with_options(max_retries=0)"
    agent.write_text(agent.read_text().replace(client, unforgiving))
    run = running("--set=rollout.max_retries=0", steps=6)
    until(lambda: run.said("step 2:"), START_S)
    begun.unlink()
    until(begun.exists)
    run.members()[0].send_signal(signal.SIGKILL)
    run.process.wait(timeout=400)
    assert run.process.returncode == 0, run.output.read_text()
    stored = (project.home / "launcher_record" / "calculator" / "episodes").glob("*.jsonl")
    episodes = [json.loads(line) for file in stored for line in file.read_text().splitlines()]
    # A call that has given nothing yet is asked again, of the server that takes the dead one's place.
    assert "started again (1 of 3)" in run.output.read_text()
    assert [episode["failures"] for episode in episodes if episode.get("failures")] == []


@pytest.mark.slow
def test_nothing_is_left_when_the_run_is_killed(running: Any) -> None:
    run = running()
    until(lambda: run.said("step 1:"), START_S)
    members = run.members()
    assert len(members) > 1
    run.process.kill()
    until(lambda: not any(member.is_running() for member in members), 60)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["starting vLLM", "step 1:"])
def test_ctrl_c_ends_run_and_servers(running: Any, moment: str) -> None:
    run = running()
    until(lambda: run.said(moment) and bool(servers()), START_S)
    members = run.members()
    os.killpg(run.process.pid, signal.SIGINT)
    run.process.wait(timeout=60)
    assert run.process.returncode == 130, run.output.read_text()
    until(lambda: not any(member.is_running() for member in members), 60)


@pytest.mark.slow
def test_a_stopped_server_that_says_nothing_is_replaced(running: Any) -> None:
    run = running("--set=rollout.vllm.request_timeout_s=3", steps=6)
    until(lambda: run.said("step 2:"), START_S)
    for member in run.members():
        member.suspend()
    run.process.wait(timeout=400)
    assert run.process.returncode == 0, run.output.read_text()
    assert "started again (1 of 3)" in run.output.read_text()


def test_no_weights_are_left_in_memory() -> None:
    memory = Path("/dev/shm")
    mine = [home for home in memory.glob("astuner-weights-*") if not psutil.pid_exists(int(home.name.split("-")[2]))]
    assert mine == []
