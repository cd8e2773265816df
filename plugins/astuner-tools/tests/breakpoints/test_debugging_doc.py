"""What docs/debugging.md shows works as it is shown: the commands, the YAML, the agent, and the editor's configuration."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from debug_adapter import Editor
from harness import REPOSITORY, environment

from astuner.settings.config.trees import merge
from astuner.settings.planning.plan import plan_run
from astuner.shared.processes import free_port
from astuner_devkit.command_line import run_command
from astuner_devkit.project import write_project

PAGE = (REPOSITORY / "docs" / "debugging.md").read_text(encoding="utf-8")
SCRIPTED = ("--set=rollout.name=scripted", '--set=rollout.scripted={replies: ["4"]}')


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


COMMANDS = [shlex.split(block) for block in blocks("bash")]
AGENT = blocks("python")[0]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A project with the agent of the page."""
    (tmp_path / "agent.py").write_text(AGENT)
    settings = {"rollout": {"num_repeat": 1}, "debug": {"debug_max_parallel": 1}}
    write_project(tmp_path, "astuner_devkit.judges:ExactAnswer", workflow="./agent.py:MyAgent", settings=settings, name="tune")
    return tmp_path


def test_the_page_shows_every_way_to_start(home: Path):
    runs = ["astuner", "run"]
    assert [command[:2] for command in COMMANDS] == [runs, runs, runs, ["astuner", "episodes"], ["python", "-m"]]


@pytest.mark.parametrize("command", COMMANDS[:3], ids=["run", "overridden", "scripted"])
def test_a_command_plays_the_agent_of_the_page(command: list[str], home: Path):
    # What the page leaves to the machine, its engine, is the scripted one here.
    ran = run_command(*command[1:], *(() if "rollout.name=scripted" in command else SCRIPTED), cwd=home)
    assert ran.code == 0, ran.err
    assert "episode train/1/sum/0: What is 2 + 2?" in ran.err
    assert "=" in ran.err.split("from what was sampled to what is learnt")[1]


def test_an_episode_is_shown_again_by_the_command_of_the_page(home: Path):
    assert run_command(*COMMANDS[0][1:], *SCRIPTED, cwd=home).code == 0
    shown = run_command(*COMMANDS[3][1:], cwd=home)
    assert shown.code == 0, shown.err
    assert shown.out.startswith("episode train/1/sum/0: What is 2 + 2?")


@pytest.mark.parametrize("block", blocks("yaml"))
def test_each_yaml_is_a_configuration(block: str, home: Path):
    conf = home / "tune.yaml"
    merged = merge(yaml.safe_load(conf.read_text()), yaml.safe_load(block))
    conf.write_text(yaml.safe_dump(merged))
    assert plan_run(conf).recipe.engine is not None


RAISING = """import json

from astuner import Workflow, WorkflowOutput

#
#

def parse(text):
    return json.loads(text)

class MyAgent(Workflow):
    async def execute(self, workflow_task, tuner):
        #
        #
        reply = "no JSON"
        return WorkflowOutput(metadata=parse(reply))
"""


def test_an_error_is_shown_as_on_the_page(home: Path):
    (shown,) = [block for block in blocks("text") if "Traceback" in block]
    failed, traceback, _, source, _, warning = shown.splitlines()
    (home / "agent.py").write_text(RAISING)
    ran = run_command(*COMMANDS[0][1:], *SCRIPTED, "--set=rollout.failure_budget=1", cwd=home)
    lines = ran.err.splitlines()
    assert {failed, traceback, source} <= set(lines)
    place = 'File "/home/me/my-agent/agent.py", line 16, in execute'
    assert place in shown
    assert place.replace("/home/me/my-agent", str(home)) in ran.err
    beginning = warning.partition(" in 2 of 8")[0]
    assert any(line.startswith(beginning) for line in lines)


def test_what_the_page_shows_of_tokens_adds_up():
    (shown,) = [block for block in blocks("text") if "what is learnt" in block]
    lines = shown.split("from what was sampled to what is learnt\n")[1].splitlines()
    signs, numbers = [line[:1] for line in lines], [int(line[1:].split()[0]) for line in lines]
    assert (signs, numbers[0] - numbers[1]) == ([" ", "-", "=", "=", "="], numbers[2])


LINE_OF_THE_STOP = 1 + AGENT[: AGENT.index("return astuner.WorkflowOutput")].count("\n")


def stop_and_look(editor: Editor) -> None:
    file, line, frame, thread = editor.stopped_at()
    assert (file, line) == ("agent.py", LINE_OF_THE_STOP)
    assert editor.ask("evaluate", expression="answer", frameId=frame, context="repl")["result"] == "'4'"
    editor.ask("continue", threadId=thread)


def configurations() -> dict[str, dict[str, Any]]:
    (text,) = blocks("json")
    return {found["request"]: found for found in json.loads(text)["configurations"]}


def test_the_editors_configuration_stops_in_the_line_of_the_user(home: Path):
    pytest.importorskip("debugpy")
    written = json.dumps(configurations()["launch"]).replace("${workspaceFolder}", str(home))
    with Editor.with_adapter(environment()) as editor:
        editor.begin(json.loads(written))
        stop_and_look(editor)
        assert editor.event("exited")["exitCode"] == 0


def test_the_editor_attaches_to_a_run_that_waits_for_it(home: Path):
    pytest.importorskip("debugpy")
    port = free_port()
    command = [word.replace("5678", str(port)) for word in COMMANDS[4]]
    with subprocess.Popen([sys.executable, *command[1:]], cwd=home, env=environment(), stderr=subprocess.DEVNULL) as run:
        attach = configurations()["attach"]
        with Editor.attached(port) as editor:
            editor.begin({**attach, "connect": {**attach["connect"], "port": port}})
            stop_and_look(editor)
            editor.event("terminated")
        assert run.wait(timeout=60) == 0
