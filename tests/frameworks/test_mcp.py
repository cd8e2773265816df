"""Tools by MCP: the tutorial over stdio, and agents that leave what they have opened."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from runs_on_disk import record
from tutorials import AGENTS

from astuner.runs.store.store_lines import read_records
from astuner_devkit.project import write_project

HERE = Path(__file__).parent
TUTORIAL = AGENTS / "mcp"
ASTUNER = (sys.executable, "-m", "astuner")
ENDS_S = 300
LIMIT_S = 20.0
BY_A_SCOPE = "CancelledError: what it awaits was cancelled by a cancel scope of anyio, and not by the run"
OTHER_TASK = "RuntimeError: Attempted to exit cancel scope in a different task than it was entered in"
REASONS = (
    {""},
    {OTHER_TASK, BY_A_SCOPE},
    {"MCPError: Connection closed"},
    {"ConnectError: All connection attempts failed"},
    {""},
)
"""Of the failures of careless_mcp_agents.py, by repeat. A worker process still awaits something after the first error."""
CALL = '<tool_call>\n{"name": "calculator", "arguments": {"expression": "12*34"}}\n</tool_call>'


def run(*arguments: str, cwd: Path) -> str:
    """Run the command in a process of its own, which ends; return what it printed."""
    ended = subprocess.run([*ASTUNER, *arguments], cwd=cwd, capture_output=True, text=True, timeout=ENDS_S, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout + ended.stderr


def read_episodes(directory: Path) -> list[dict[str, Any]]:
    entries = read_records(directory / "episodes/train.jsonl")
    return [entry["episode"] for _, entry in entries if entry["kind"] == "episode"]


def find_servers(directory: Path) -> list[int]:
    """Return the living processes that run a program of this directory."""
    found = [process for process in psutil.process_iter(["pid", "cmdline", "status"]) if process.info["cmdline"]]
    return [
        process.info["pid"]
        for process in found
        if process.info["status"] != psutil.STATUS_ZOMBIE and any(str(directory) in word for word in process.info["cmdline"])
    ]


def play(workflow: str, directory: Path, **rollout: Any) -> tuple[dict[int, dict[str, Any]], str]:
    """Run one task with an agent of careless_mcp_agents.py; return its episodes by repeat, and what the run printed."""
    for name in ("careless_mcp_agents.py", "mcp_server.py"):
        shutil.copy(HERE / name, directory)
    write_project(directory, workflow=f"./careless_mcp_agents.py:{workflow}", settings={"rollout": rollout, "task_judge": {}})
    said = run("run", "--conf", "project.yaml", cwd=directory)
    return {episode["repeat"]: episode for episode in read_episodes(directory / "launcher_record/project.debug")}, said


@pytest.mark.parametrize("isolation", ["async", "process"])
def test_contexts_left_open_or_in_another_task_fail_their_episode_alone(isolation: str, tmp_path: Path):
    episodes, said = play("Agent", tmp_path, num_repeat=len(REASONS), failure_budget=0.9, isolation=isolation)
    assert sorted(episodes) == list(range(len(REASONS)))
    for repeat, expected in enumerate(REASONS):
        found = {failure["detail"].partition(" (")[0] for failure in episodes[repeat]["failures"]}
        assert found or "" in expected, repeat
        assert found <= expected, repeat
    assert f"of {len(REASONS)} episodes" in said
    if isolation == "async":
        assert "warning: the context stdio_client (" in said
        assert "was left open, and could not be closed in another task: RuntimeError" in said
    assert "during closing of asynchronous generator" not in said
    assert find_servers(tmp_path) == []


@pytest.mark.parametrize("isolation", ["async", "process"])
def test_an_agent_whose_end_of_the_contexts_never_comes_is_ended_by_the_time_limit(isolation: str, tmp_path: Path):
    episodes, said = play("Hanging", tmp_path, num_repeat=2, failure_budget=1.0, isolation=isolation, episode_timeout_s=LIMIT_S)
    assert [[failure["reason"] for failure in episodes[repeat]["failures"]] for repeat in (0, 1)] == [["timeout"], ["timeout"]]
    assert "lost: 2 of 2 episodes (timeout 2)" in said
    assert find_servers(tmp_path) == []


def test_a_run_that_is_stopped_ends_the_servers_of_its_episodes(tmp_path: Path):
    for name in ("careless_mcp_agents.py", "mcp_server.py"):
        shutil.copy(HERE / name, tmp_path)
    write_project(tmp_path, workflow="./careless_mcp_agents.py:Waiting", settings={"task_judge": {}})
    with (tmp_path / "log.txt").open("wb") as log:
        command = [*ASTUNER, "run", "--conf", "project.yaml"]
        process = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log, start_new_session=True)
    until = time.monotonic() + ENDS_S
    while not find_servers(tmp_path) and process.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(ENDS_S) == 130, (tmp_path / "log.txt").read_text()
    assert find_servers(tmp_path) == []


def test_the_tutorial_offers_the_tools_of_its_server_and_ends_it(tiny_model: Path, tmp_path: Path):
    shutil.copytree(AGENTS, tmp_path / "agents")
    script = json.dumps([CALL, "It is \\boxed{408}"])
    settings = [
        "rollout.name=scripted",
        f"rollout.scripted.replies={script}",
        "debug.debug_first_n_tasks=1",
        "rollout.num_repeat=2",
        f"model.path={tiny_model}",
    ]
    home = tmp_path / "agents/mcp"
    run("run", "--conf", "tune.yaml", "--backbone=debug", *(f"--set={text}" for text in settings), cwd=home)
    episodes = read_episodes(record(home, "mcp.debug"))
    assert [episode["failures"] for episode in episodes] == [[], []]
    for episode in episodes:
        (tool,) = episode["calls"][0]["tools"]
        assert tool["function"]["name"] == "calculator"
        assert tool["function"]["parameters"]["required"] == ["expression"]
        assert episode["output"]["metadata"]["final_answer"] == "It is \\boxed{408}"
    assert find_servers(home) == []


def test_the_configuration_over_http_adds_the_server_alone():
    over_stdio, over_http = (yaml.safe_load((TUTORIAL / name).read_text())["astuner"] for name in ("tune.yaml", "http.yaml"))
    assert over_http.pop("experiment_name") == "mcp_http"
    assert list(over_http.pop("services")) == ["calculator"]
    assert {"experiment_name": "mcp", **over_http} == over_stdio
