"""Whatever a workflow raises, swallows or cancels, it fails one episode, wherever it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.schema import Episode
from astuner.episodes.containment import guarded_loop
from astuner.episodes.rollout.workflows import load_workflow

HERE = Path(__file__).parent
ISOLATIONS = ("async", "thread", "process")

Play = Callable[..., tuple[Episode, Episode]]


@pytest.fixture
def play(stage: Callable[..., Any]) -> Play:
    def play(workflow: str, isolation: str, **options: Any) -> tuple[Episode, Episode]:
        found = load_workflow(f"./unruly_workflows.py:{workflow}", HERE).make
        made = stage(found, lambda prompt, request: "4", options={"isolation": isolation, **options})
        failed, good = made.play(2).episodes
        play.told = made.told  # type: ignore[attr-defined]
        return failed, good

    return play


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize(
    ("workflow", "said"),
    [
        ("LeaksCancelled", "CancelledError: what it awaits was cancelled, and not by the run (unruly_workflows.py:"),
        ("AwaitsCancelled", "CancelledError: what it awaits was cancelled, and not by the run (unruly_workflows.py:"),
        ("CancelsItself", "CancelledError: what it awaits was cancelled, and not by the run (unruly_workflows.py:"),
        ("CancelsAll", "CancelledError: what it awaits was cancelled, and not by the run (unruly_workflows.py:"),
        ("CancelsAllAndReturns", "CancelledError: what it awaits was cancelled, and not by the run"),
        ("ParsesArguments", "SystemExit: 2 (unruly_workflows.py:"),
        ("ExitsInATask", "SystemExit: 3 (unruly_workflows.py:"),
        ("Interrupts", "KeyboardInterrupt (unruly_workflows.py:"),
        ("ClosesGenerators", "GeneratorExit (unruly_workflows.py:"),
        ("RaisesOdd", "Odd: odd (unruly_workflows.py:"),
    ],
)
def test_what_a_workflow_raises_fails_its_episode_and_says_where(play: Play, workflow: str, said: str, isolation: str) -> None:
    failed, good = play(workflow, isolation)
    assert failed.failures[-1].reason == "workflow_error"
    assert failed.failures[-1].detail.startswith(said)
    assert good.reward == 1.0


@pytest.mark.parametrize("isolation", ["async", "thread"])
def test_a_workflow_whose_user_leaves_the_debugger_has_not_failed_but_ended(play: Play, isolation: str) -> None:
    with pytest.raises(asyncio.CancelledError):
        play("IsQuitInADebugger", isolation)


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_workflow_whose_constructor_exits_fails_its_episode(play: Play, isolation: str) -> None:
    failed, _ = play("MakesNothing", isolation)
    assert failed.failures[-1].detail.startswith("SystemExit: 5 (unruly_workflows.py:")


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_workflow_cannot_stop_the_loop_of_others(play: Play, isolation: str) -> None:
    failed, good = play("StopsTheLoop", isolation)
    assert failed.failures[-1].reason == "workflow_error"
    assert good.reward == 1.0


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("workflow", ["Swallows", "IsCancelledOverAndOver"])
def test_a_workflow_that_swallows_its_cancellation_is_abandoned_at_its_time_limit_and_named(
    play: Any, monkeypatch: pytest.MonkeyPatch, workflow: str, isolation: str
) -> None:
    monkeypatch.setattr(guarded_loop, "GRACE_S", 0.2)
    failed, good = play(workflow, isolation, episode_timeout_s=0.5 if isolation != "process" else 8.0)
    assert failed.failures[-1].reason == "timeout"
    # A process is killed, whatever the workflow does, and on a busy machine its start alone may take the sibling's time.
    if isolation != "process":
        assert good.reward == 1.0
        assert "; it was at unruly_workflows.py:" in failed.failures[-1].detail
        assert "the workflow of train/1/t/0 was cancelled, did not end within 0.2 s and was abandoned" in play.told[0]


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_task_that_a_workflow_leaves_behind_does_not_keep_the_run_from_ending(
    play: Play, monkeypatch: pytest.MonkeyPatch, isolation: str
) -> None:
    monkeypatch.setattr("astuner.episodes.containment.guarded_loop.end_tasks_of_code.__defaults__", (0.2,))
    first, second = play("SwallowsInATask", isolation)
    assert (first.reward, second.reward) == (1.0, 1.0)


def test_a_blocked_thread_is_left_behind_and_named(play: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guarded_loop, "GRACE_S", 0.2)
    failed, good = play("BlocksForSeconds", "thread", episode_timeout_s=0.5)
    assert failed.failures[-1].reason == "timeout"
    assert "unruly_workflows.py:" in failed.failures[-1].detail
    assert "its thread is left behind" in play.told[0]
    assert good.reward == 1.0
