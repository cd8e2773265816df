"""Runs from Python: what they are given and refuse, beside a running loop, one after the other, and stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import astuner
from astuner.contract.errors import ConfigError, Interrupted, UsageError
from astuner.runs.launching import list_items
from astuner_devkit.project import write_project


@pytest.fixture(autouse=True)
def work_in(tmp_path: Path, own_state: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    assert [thread.name for thread in threading.enumerate() if thread.name == "astuner-run"] == []


AGENT = """
from pathlib import Path

from astuner import Workflow, WorkflowOutput
from words import WORD


class Agent(Workflow):
    async def execute(self, workflow_task, tuner):
        return WorkflowOutput(reward=float(len(WORD)))
"""


def write_agent(directory: Path, word: str) -> Path:
    """A project whose agent imports a module of its own; its reward is the length of a word in it."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "agent.py").write_text(AGENT)
    (directory / "words.py").write_text(f"WORD = {word!r}\n")
    return write_project(directory, workflow="./agent.py:Agent")


def rewards(run: astuner.Run) -> list[Any]:
    return [episode.reward for episode in run.episodes()]


@pytest.mark.parametrize(
    ("overrides", "items"),
    [
        ({"a.b": 1, "c": 1e-6, "d": "x: y", "e": None}, ["a.b=1", "c=1e-06", 'd="x: y"', "e=null"]),
        ({"a": [True, {"b": 2}]}, ['a=[true, {"b": 2}]']),
        ({"a": np.int64(3), "b": np.float32(0.5), "c": np.arange(2), "d": Path("x")}, ["a=3", "b=0.5", "c=[0, 1]", 'd="x"']),
        (["a.b=1"], ["a.b=1"]),
        ((), []),
    ],
)
def test_overrides_are_keys_and_values_or_what_the_command_takes(overrides, items):
    assert list_items(overrides) == items


def test_a_value_that_yaml_does_not_have_is_refused_by_its_key():
    with pytest.raises(UsageError, match=r"overrides: rollout\.temperature: <object.*is not a value of YAML: it is a object"):
        list_items({"rollout.temperature": object()})


def test_a_run_returns_its_metrics_and_episodes(tmp_path):
    run = astuner.run(write_project(tmp_path), {"rollout.num_repeat": 2, "trainer_common.optim.lr": 1e-06})
    assert run.state.status == "finished"
    assert rewards(run) == [1.0, 1.0]
    assert run.read_rows()[0]["reward/mean"] == 1.0
    assert run.config["trainer_common"]["optim"]["lr"] == 1e-6
    assert run.path == tmp_path / "launcher_record/project.debug"


def test_a_validation_alone_is_a_run_too(tmp_path):
    conf = write_project(tmp_path, settings={"task_reader": {"dataset_file": {"validation": {"file_path": "project.jsonl"}}}})
    run = astuner.evaluate(conf)
    assert run.read_rows()[-1]["val/reward/mean"] == 1.0
    assert {episode.split for episode in run.episodes()} == {"validation"}


def test_mistakes_are_those_of_the_command(tmp_path):
    conf = write_project(tmp_path)
    with pytest.raises(ConfigError, match=r"--set rollout\.temprature.*Did you mean"):
        astuner.run(conf, {"rollout.temprature": 1})
    with pytest.raises(ConfigError, match=r"there is no such file"):
        astuner.run(tmp_path / "none.yaml")
    with pytest.raises(UsageError, match="there is no such checkpoint"):
        astuner.evaluate(conf, tmp_path / "none")


def test_a_loop_may_be_running_in_the_thread(tmp_path):
    conf = write_agent(tmp_path, "four")

    async def cell() -> list[Any]:
        return rewards(astuner.run(conf))

    assert asyncio.run(cell()) == [4.0]


def test_a_mistake_beside_a_loop_is_raised_in_the_cell(tmp_path):
    async def cell() -> None:
        astuner.run(tmp_path / "none.yaml")

    with pytest.raises(ConfigError, match="there is no such file"):
        asyncio.run(cell())


def test_projects_with_modules_of_the_same_names_follow_each_other(tmp_path):
    confs = [write_agent(tmp_path / word, word) for word in ("one", "three")]
    assert [rewards(astuner.run(conf)) for conf in confs] == [[3.0], [5.0]]


def test_an_agent_that_was_edited_is_read_again(tmp_path):
    conf = write_agent(tmp_path, "one")
    assert rewards(astuner.run(conf)) == [3.0]
    write_agent(tmp_path, "another")
    assert rewards(astuner.run(conf)) == [7.0]


def test_a_judge_outside_of_the_project_is_read_again_too(tmp_path):
    conf = write_project(tmp_path / "project", "../judge.py:Judge")
    for reward in (0.25, 0.5):
        judge = f"class Judge:\n    def compute_reward(self, workflow_task, workflow_output):\n        return {reward}\n"
        (tmp_path / "judge.py").write_text(judge)
        assert rewards(astuner.run(conf)) == [reward]


def look_at_the_process() -> dict[str, Any]:
    process = psutil.Process()
    return {
        "path": list(sys.path),
        "environment": dict(os.environ),
        "directory": os.getcwd(),
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)],
        "threads": {*threading.enumerate()},
        "files": {file.path for file in process.open_files()},
        "children": {*process.children(recursive=True)},
        "hooks": (sys.excepthook, threading.excepthook, sys.stdout, sys.stderr),
        "agents": sorted(name for name in sys.modules if name in ("agent", "words")),
    }


def assert_nothing_is_left(before: dict[str, Any]) -> None:
    """What another test has left may end meanwhile."""
    after = look_at_the_process()
    for name in ("threads", "files", "children"):
        assert after[name] - before[name] == set()
    assert [name for name, value in after.items() if not isinstance(value, set) and value != before[name]] == []


def test_a_run_leaves_nothing_behind(tmp_path):
    conf = write_agent(tmp_path, "one")
    (tmp_path / ".env").write_text("MY_DATABASE=first\n")
    astuner.run(conf)
    before = look_at_the_process()
    astuner.run(conf)
    assert_nothing_is_left(before)
    assert "MY_DATABASE" not in os.environ
    assert before["agents"] == []


def test_a_run_that_fails_leaves_nothing_behind(tmp_path):
    conf = write_agent(tmp_path, "one")
    before = look_at_the_process()
    (tmp_path / "words.py").write_text("raise ValueError('broken')\n")
    with pytest.raises(astuner.contract.errors.AstunerError, match="broken"):
        astuner.run(conf)
    assert_nothing_is_left(before)


def test_a_module_that_the_user_imported_stays_his(tmp_path, monkeypatch):
    conf = write_agent(tmp_path, "one")
    monkeypatch.syspath_prepend(tmp_path)
    import words  # type: ignore[import-not-found]

    astuner.run(conf)
    assert sys.modules.pop("words") is words


SIGNALS_ITSELF = """
import asyncio, os, signal
from astuner import Workflow


class Agent(Workflow):
    async def execute(self, workflow_task, tuner):
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(3600)
"""


@pytest.mark.parametrize("in_loop", [False, True], ids=["in a script", "in a cell"])
def test_an_interrupt_stops_the_run_with_its_state_saved(tmp_path, in_loop):
    (tmp_path / "stuck.py").write_text(SIGNALS_ITSELF)
    conf = write_project(tmp_path, workflow="./stuck.py:Agent")

    async def cell() -> None:
        astuner.run(conf)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted, match=r"stopped after step 0; continue with: astuner run --conf \S+ --resume"):
        asyncio.run(cell()) if in_loop else astuner.run(conf)
    assert astuner.Run(tmp_path / "launcher_record/project.debug").state.status == "interrupted"
    assert signal.getsignal(signal.SIGINT) is before


RUNS_ANOTHER = """
import astuner


class Agent(astuner.Workflow):
    async def execute(self, workflow_task, tuner):
        try:
            astuner.run("project.yaml")
        except astuner.contract.errors.UsageError as error:
            return astuner.WorkflowOutput(reward=1.0, metadata={"refused": str(error)})
"""


def test_a_process_runs_one_at_a_time(tmp_path):
    (tmp_path / "nested.py").write_text(RUNS_ANOTHER)
    run = astuner.run(write_project(tmp_path, workflow="./nested.py:Agent"))
    [refused] = [episode.output.metadata["refused"] for episode in run.episodes() if episode.output is not None]
    assert refused.startswith("a run is under way in this process: wait for its end")


def test_a_replay_without_the_package_of_the_command_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astuner.settings.plugins.functions.entry_points", lambda **_: ())
    with pytest.raises(ImportError, match=r"astuner\.replay: the command `astuner replay` is not installed: pip install "):
        astuner.replay("mine", "stricter.yaml")
