"""Whole runs of `astuner run` against a server: the reader, the environment and the judge `env_service` together."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import ConfigError
from astuner.settings.config.loading import load_config
from astuner_devkit import write_project
from astuner_devkit.command_line import run_command
from astuner_devkit.run_in_process import add_recorder, play
from astuner_devkit.run_infos import run_info
from astuner_devkit.waiting import until
from astuner_envs.commands import parse_served
from astuner_envs.service import environments
from astuner_envs.worlds.countdown import Countdown, make_puzzle

pytest.importorskip("astuner_env_service", reason="comes with astuner-env-service")

TOKEN = "a-token-of-the-tests"
WORKFLOW = """
from astuner import Workflow, WorkflowOutput


class Plays(Workflow):
    async def execute(self, workflow_task, tuner):
        world, client = workflow_task.gym_env, tuner.as_raw_openai_sdk_client()
        messages = [dict(message) for message in await world.reset()]
        done = False
        while not done:
            answer = await client.chat.completions.create(model="any", messages=messages)
            messages.append({"role": "assistant", "content": answer.choices[0].message.content})
            said, _, done, _ = await world.step(messages[-1])
            messages += map(dict, said)
        return WorkflowOutput(metadata={"turns": len(messages)})
"""
# Its episodes say that they are in the middle, and stay there until they are let go.
HELD_WORKFLOW = "import asyncio, uuid\nfrom pathlib import Path\n" + WORKFLOW.replace(
    "        done = False\n",
    """        Path(f"begun-{uuid.uuid4()}").touch()
        while not Path("go").exists():
            await asyncio.sleep(0.02)
        done = False
""",
)
SHAPED = {"judge_type": "env_service", "env_service": {"score_weight": 0.5, "success_bonus": 1.0}}
LEADS = {"user_workflow": None, "use_agentscope_protocol": False}


@pytest.fixture(autouse=True)
def _token(monkeypatch):
    monkeypatch.setenv("ASTUNER_ENV_TOKEN", TOKEN)


def project(home: Path, url: str, *, tasks: int = 3, **settings: Any) -> Path:
    """Write a project that plays the first tasks of `countdown`, and solves the first of them."""
    home.mkdir(exist_ok=True)
    (home / "plays.py").write_text(WORKFLOW)
    puzzle = make_puzzle("train-0", Countdown.Options())
    lines = [
        {"match": f"{', '.join(map(str, puzzle.numbers))}. Target: {puzzle.target}\\.", "reply": f"\\boxed{{{puzzle.solution}}}"},
        {"reply": "\\boxed{1 + 1}"},
    ]
    (home / "script.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    reader = {"env_type": "countdown", "env_url": url, "env_action_preference": "text", "limit": tasks}
    rollout = {"user_workflow": "./plays.py:Plays", **settings.pop("rollout", {})}
    given = add_recorder(
        {
            "task_reader": {"type": "env_service", "env_service": reader},
            "task_judge": SHAPED,
            "rollout": {"name": "scripted", "scripted": {"script": "script.jsonl"}, "num_repeat": 2, **rollout},
            "debug": {"debug_first_n_tasks": tasks, "debug_max_parallel": 4},
            **settings,
        }
    )
    return write_project(home, settings=given)


def test_the_server_of_a_run_has_the_options_of_its_environment(tmp_path, unused_tcp_port):
    options = {"attempts": 1, "largest": 9, "use_all": True}
    conf = project(tmp_path, f"http://127.0.0.1:{unused_tcp_port}", rollout=LEADS, environment={"countdown": options})
    command = environments(run_info(tmp_path, config=load_config(conf).config)).service.command
    (world,) = parse_served(["countdown"], [after for before, after in itertools.pairwise(command) if before == "--set"], [])
    assert world.options == options


@pytest.mark.parametrize("leads", [False, True], ids=["a workflow plays", "the environment leads"])
def test_a_run_plays_judges_and_releases(serve, tmp_path, leads):
    server = serve("--env", "countdown")
    played = play(project(tmp_path, server.url, rollout=LEADS if leads else {}))
    assert played.rewards == [1.5, 1.5, 0.0, 0.0, 0.0, 0.0]
    assert [episode.verdict.components for episode in played.episodes][1:3] == [{"score": 1.0}, {"score": 0.0}]
    assert [episode.is_success for episode in played.episodes] == [True] * 2 + [False] * 4
    assert [len(episode.calls) for episode in played.episodes] == [1, 1, 3, 3, 3, 3]
    assert played.episodes[0].task.metadata["env_service"]["env_type"] == "countdown"
    assert server.accounts() == {"created": 6, "released": 6, "most": 256}
    until(lambda: server.processes() == [])


def test_a_world_is_played_in_process_by_its_own_tasks(tmp_path):
    reader = {"type": "environment_tasks", "environment_tasks": {"environment": "countdown", "limit": 2}}
    settings = {"task_reader": reader, "environment": {"countdown": {"attempts": 1}}, "rollout": LEADS}
    played = play(project(tmp_path, "http://127.0.0.1:1", **settings))
    assert played.rewards == [1.5, 1.5, 0.0, 0.0]
    assert {len(episode.calls) for episode in played.episodes} == {1}


def test_an_environment_that_leads_is_named_once(tmp_path):
    environment = {"environment_type": "countdown", "leads": True, "countdown": {"attempts": 1}}
    reader = {"type": "environment_tasks", "environment_tasks": {"limit": 2}}
    played = play(
        project(tmp_path, "http://127.0.0.1:1", task_reader=reader, environment=environment, rollout={"user_workflow": None})
    )
    assert played.rewards == [1.5, 1.5, 0.0, 0.0]


def test_tasks_of_no_environment_are_refused(tmp_path):
    reader = {"type": "environment_tasks", "environment_tasks": {"limit": 2}}
    with pytest.raises(ConfigError, match="name the environment here"):
        play(project(tmp_path, "http://127.0.0.1:1", task_reader=reader, rollout=LEADS))


def test_a_run_starts_its_own_server_and_ends_it(tmp_path, own_state, unused_tcp_port, monkeypatch):
    monkeypatch.delenv("ASTUNER_ENV_TOKEN")
    conf = project(tmp_path, f"http://127.0.0.1:{unused_tcp_port}", tasks=1, rollout=LEADS)
    result = run_command("run", "--conf", conf.name, "--with", "environments", cwd=tmp_path)
    assert result.code == 0, result.err
    assert "service 'environments': ready" in result.err
    assert "reward 1.5" in result.err
    assert run_command("ps", "--json", cwd=tmp_path).out.strip() == "[]"


def test_a_run_whose_client_is_killed_leaves_nothing_on_the_server(serve, tmp_path):
    server = serve("--env", "countdown", "--idle-timeout-s", 6)
    conf = project(tmp_path, server.url, rollout={**LEADS, "scripted": {"replies": ["no"], "delay_s": 60.0}})
    command = [sys.executable, "-m", "astuner", "run", "--conf", str(conf)]
    running = subprocess.Popen(command, cwd=tmp_path, env=os.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: server.accounts().get("alive") == 4, limit_s=120)
    finally:
        running.kill()
        running.wait()
    until(lambda: server.accounts() == {"created": 4, "idle": 4, "most": 256})
    until(lambda: server.processes() == [])


def test_a_server_that_is_restarted_in_the_middle_loses_no_episode_unsaid(serve, tmp_path, unused_tcp_port):
    server = serve("--env", "countdown", "--port", unused_tcp_port)
    conf = project(tmp_path, server.url, tasks=4, rollout={"scripted": {"replies": ["no"]}, "max_retries": 2})
    (tmp_path / "plays.py").write_text(HELD_WORKFLOW)
    command = [sys.executable, "-m", "astuner", "run", "--conf", str(conf)]
    running = subprocess.Popen(command, cwd=tmp_path, env=os.environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert running.stdout is not None
    until(lambda: len(list(tmp_path.glob("begun-*"))) == 4, limit_s=120)
    server.process.kill()
    server.process.wait()
    again = serve("--env", "countdown", "--port", unused_tcp_port)
    (tmp_path / "go").touch()
    said, _ = running.communicate(timeout=300)
    assert running.returncode == 0, said
    assert "reward" in said
    played = read_played_episodes(tmp_path)
    assert len(played) == 8
    failures = [failure for episode in played for failure in episode["failures"]]
    assert [(failure["reason"], failure["retried"]) for failure in failures] == [("environment_error", True)] * 4
    assert all(episode["output"] is not None for episode in played)
    assert again.accounts()["created"] == again.accounts()["released"] == 8
    until(lambda: again.processes() == [])


def read_played_episodes(home: Path) -> list[dict[str, Any]]:
    """Return the episodes that the run stored."""
    rows = map(json.loads, (home / "launcher_record/project.debug/episodes/train.jsonl").read_text().splitlines())
    return [row["episode"] for row in rows if row["kind"] == "episode"]


def test_a_server_that_is_not_there_is_found_out_before_anything_starts(tmp_path, unused_tcp_port):
    conf = project(tmp_path, f"http://127.0.0.1:{unused_tcp_port}")
    result = run_command("run", "--conf", conf.name, cwd=tmp_path)
    assert result.code == 2
    assert "task_reader.env_service" in result.err
    assert "Is the service running, and env_url right?" in result.err


def test_a_wrong_token_is_said_without_showing_it(serve, tmp_path, monkeypatch):
    server = serve("--env", "countdown")
    monkeypatch.setenv("ASTUNER_ENV_TOKEN", "not-the-token")
    conf = project(tmp_path, server.url)
    result = run_command("run", "--conf", conf.name, cwd=tmp_path)
    assert (result.code, "wants a token (401)" in result.err, "not-the-token" in result.err) == (2, True, False)
