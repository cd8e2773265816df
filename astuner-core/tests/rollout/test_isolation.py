from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from astuner.contract.schema import Task, WorkflowTask
from astuner.episodes.rollout.isolation import InProcess, InThread, OnLoop, WorkflowCrashed
from astuner.episodes.rollout.workflows import load_workflow

HERE = Path(__file__).parent
TASK = WorkflowTask(Task("how many?"))


class NoTuner:
    def remote(self):
        return None


def target(name):
    return f"./blocking_workflows.py:{name}"


def make(name):
    return load_workflow(target(name), HERE).make


def play(executor, times=1, timeout=300.0):
    async def all_of_them():
        async with asyncio.timeout(timeout):
            return await asyncio.gather(*(executor.run(TASK, NoTuner()) for _ in range(times)))

    try:
        return asyncio.run(all_of_them())
    finally:
        executor.close()


def test_on_the_loop_a_workflow_shares_the_thread():
    assert play(OnLoop(make("Says")))[0].output.metadata["thread"] == threading.get_ident()


def test_a_thread_has_a_loop_of_its_own():
    assert play(InThread(make("Says")))[0].output.metadata["thread"] != threading.get_ident()


@pytest.mark.parametrize("isolation", ["async", "thread", "process"])
def test_an_output_is_made_plain_where_the_workflow_runs(isolation):
    name = "Unpicklable"
    executors = {
        "async": lambda: OnLoop(make(name)),
        "thread": lambda: InThread(make(name)),
        "process": lambda: InProcess(target(name), HERE, 1),
    }
    (checked,) = play(executors[isolation]())
    assert checked.output.metadata["thing"] == "<Unpicklable.Thing>"
    assert checked.output.log_metrics == {}
    assert len(checked.changes) == 3


def test_blocking_workflows_in_threads_leave_the_loop_free():
    executor = InThread(make("Blocks"))

    async def watch():
        ticks = 0
        playing = asyncio.gather(*(executor.run(TASK, None) for _ in range(4)))
        while not playing.done():
            await asyncio.sleep(0.02)
            ticks += 1
        return ticks

    try:
        assert asyncio.run(watch()) > 1
    finally:
        executor.close()


def test_a_process_is_kept_for_the_next_episode():
    executor = InProcess(target("Says"), HERE, 1)
    pids = {checked.output.metadata["pid"] for checked in play(executor, times=3)}
    assert len(pids) == 1
    assert os.getpid() not in pids


def test_a_process_does_not_search_what_was_imported_for_garbage_after_each_episode():
    counts = [checked.output.metadata for checked in play(InProcess(target("Counts"), HERE, 1), times=4)]
    assert all(found["searched"] < found["kept"] / 4 for found in counts), counts
    # What the later episodes leave behind is searched.
    assert counts[2]["kept"] == counts[3]["kept"]


def test_an_exception_in_a_process_crosses_as_text_with_its_place():
    with pytest.raises(WorkflowCrashed, match=r"KeyError: 'answer' \(blocking_workflows\.py:\d+ in execute\)"):
        play(InProcess(target("Raises"), HERE, 1))


@pytest.mark.parametrize(("workflow", "end"), [("Dies", "ended with exit code 3"), ("Killed", "was ended by the signal SIGKILL")])
def test_a_process_that_dies_is_one_failure_and_is_replaced(workflow, end):
    executor = InProcess(target(workflow), HERE, 1)
    with pytest.raises(WorkflowCrashed, match=end):
        play(executor)


def test_a_process_whose_memory_is_limited_loses_one_episode():
    with pytest.raises(WorkflowCrashed, match=r"MemoryError.* \(blocking_workflows\.py:\d+ in execute\)"):
        play(InProcess(target("Starves"), HERE, 1))


@pytest.mark.parametrize("workflow", ["Hangs", "HoldsTheInterpreter"])
def test_a_hanging_process_is_killed_with_its_time_limit(workflow):
    executor = InProcess(target(workflow), HERE, 1)
    with pytest.raises(TimeoutError):
        play(executor, timeout=3.0)
    assert not executor._all


def test_what_failed_in_the_surroundings_of_a_process_crosses_as_its_reason():
    with pytest.raises(WorkflowCrashed, match="RuntimeError: no search") as caught:
        play(InProcess(target("LosesItsService"), HERE, 1))
    assert caught.value.surroundings == "service_unavailable"


def test_a_process_whose_import_of_the_workflow_hangs_is_killed_and_named(tmp_path, monkeypatch):
    monkeypatch.setattr("astuner.episodes.rollout.isolation.START_TIMEOUT_S", 0.5)
    (tmp_path / "hangs.py").write_text("import time\ntime.sleep(600)\n")
    executor = InProcess("./hangs.py:Agent", tmp_path, 1)
    with pytest.raises(
        WorkflowCrashed, match=r"was not ready after 0\.5 s and was killed: importing \./hangs\.py:Agent hangs, or takes too long"
    ):
        play(executor)
    assert not executor._all
