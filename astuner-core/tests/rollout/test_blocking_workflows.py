"""A workflow whose `execute` is a plain `def` plays in a thread or a process, and can do no more harm than another."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from pathlib import Path

import pytest

from astuner.contract.errors import PluginError
from astuner.contract.schema import Task, WorkflowTask
from astuner.episodes.containment import guarded_loop
from astuner.episodes.containment.contained_call import run_contained
from astuner.episodes.containment.guarded_loop import GuardedLoop
from astuner.episodes.containment.user_code import UserCode
from astuner.episodes.rollout.isolation import InProcess, InThread, WorkflowCrashed
from astuner.episodes.rollout.workflows import load_workflow

HERE = Path(__file__).parent
TASK = WorkflowTask(Task("how many?"))
ISOLATIONS = ("async", "thread", "process")


class NoTuner:
    def remote(self):
        return None

    def as_agentscope_model(self):
        return None


def load(name):
    return load_workflow(f"./blocking_workflows.py:{name}", HERE)


def play(name, *, in_process):
    target = f"./blocking_workflows.py:{name}"

    async def run():
        executor = InProcess(target, HERE, 1) if in_process else InThread(load(name).make, blocking=load(name).blocks)
        try:
            return (await run_contained(lambda: executor.run(TASK, NoTuner()), UserCode("the workflow"))).output
        finally:
            executor.close()

    with asyncio.Runner(loop_factory=GuardedLoop) as runner:
        return runner.run(run())


@pytest.mark.parametrize("in_process", [False, True], ids=["thread", "process"])
@pytest.mark.parametrize("name", ["Sync", "SyncThatRunsALoop", "SyncThatReturnsAnAwaitable"])
def test_a_plain_execute_plays_away_from_the_runs_loop(name, in_process):
    assert load(name).blocks
    where = play(name, in_process=in_process).metadata
    assert (where["pid"] != os.getpid()) is in_process
    assert (where["thread"] == threading.get_ident()) is False or in_process


@pytest.mark.parametrize("in_process", [False, True], ids=["thread", "process"])
def test_what_a_plain_execute_raises_has_its_place_and_its_traceback(in_process):
    with pytest.raises((WorkflowCrashed, ValueError), match=r"invalid literal") as caught:
        play("SyncThatRaises", in_process=in_process)
    if in_process:
        assert re.search(r"blocking_workflows.py:\d+ in execute$", caught.value.raised.place)
        assert "reward=int(workflow_task.task.main_query)" in caught.value.raised.traceback


def test_a_plain_function_is_a_workflow():
    assert play("sync_function", in_process=False).reward == len("how many?")


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_synchronous_client_asks_the_model(stage, isolation):
    loaded = load("SyncThatAsks")
    made = stage(loaded.make, lambda prompt, request: "4", options={"isolation": isolation}, blocks=loaded.blocks)
    assert [episode.reward for episode in made.play(2).episodes] == [4.0, 4.0]


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_plain_execute_that_exits_fails_its_episode(stage, isolation):
    loaded = load("SyncThatExits")
    made = stage(loaded.make, lambda prompt, request: "4", options={"isolation": isolation}, blocks=loaded.blocks)
    [failure] = made.play(1).episodes[0].failures
    assert failure.reason == "workflow_error"
    assert failure.detail.startswith("SystemExit: 4 (")
    assert failure.place.endswith("in execute")
    assert failure.traceback.endswith("SystemExit: 4")


def test_a_plain_execute_that_hangs_ends_at_its_time_limit_and_is_left_behind(stage, monkeypatch):
    monkeypatch.setattr(guarded_loop, "GRACE_S", 0.1)
    loaded = load("SyncThatHangs")
    made = stage(loaded.make, lambda prompt, request: "4", options={"episode_timeout_s": 1.0}, blocks=True)
    [hung] = made.play(1).episodes
    loaded.make.released.set()
    assert hung.failures[0].reason == "timeout"
    assert "blocking_workflows.py" in hung.failures[0].detail
    assert any("its thread is left behind" in text for text in made.told)


def test_an_execute_that_takes_other_arguments_is_refused(tmp_path):
    (tmp_path / "odd.py").write_text("class Odd:\n    def execute(self, task): ...\n")
    with pytest.raises(PluginError, match=r"Odd.execute \(odd.py:2\) is called with a task and a tuner"):
        load_workflow("./odd.py:Odd", tmp_path)


def test_a_class_without_execute_is_refused(tmp_path):
    (tmp_path / "none.py").write_text("class No:\n    pass\n")
    with pytest.raises(PluginError, match="is a class without `execute`"):
        load_workflow("./none.py:No", tmp_path)
