"""Stopping a run by a signal."""

from __future__ import annotations

import os
import signal
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from astuner.episodes.containment.endings import UserInterrupt
from astuner.episodes.containment.user_code import UserCode, find_running_code
from astuner.runs.driver.control import RunControl, stop_on_signals, unwind_on_sigterm


@pytest.fixture(autouse=True)
def _usual_handlers() -> Iterator[None]:
    """A shell may start a program in its background with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def make_control() -> RunControl:
    nothing: Any = None
    return RunControl(store=nothing, hooks=nothing, resume_step=0, notify=nothing, progress=lambda *_: None)


@pytest.mark.parametrize("error", [BrokenPipeError, RuntimeError, ImportError])
def test_a_signal_stops_the_run_even_when_nobody_can_be_told(error: type[Exception]) -> None:
    control = make_control()

    def gone(text: str) -> None:
        raise error

    with stop_on_signals(control, gone):
        os.kill(os.getpid(), signal.SIGTERM)
    assert control.stop


def test_a_signal_that_arrives_inside_users_code_stops_the_run_in_the_name_of_the_run() -> None:
    control, asking = make_control(), list[UserCode | None]()
    control.on_stop(lambda: asking.append(find_running_code()))
    with stop_on_signals(control, lambda text: None):
        UserCode("the workflow").make_context().run(os.kill, os.getpid(), signal.SIGINT)
    assert asking == [None]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_users_code_ignores_stops_the_run_from_the_next_episode_on(number: signal.Signals) -> None:
    control = make_control()
    with stop_on_signals(control, lambda text: None):
        signal.signal(number, signal.SIG_IGN)
        control.progress("rollout", 1, 8)
        os.kill(os.getpid(), number)
    assert control.stop


def test_after_the_first_signal_progress_leaves_the_second_one_to_end_the_run_at_once() -> None:
    control = make_control()
    with stop_on_signals(control, lambda text: None):
        os.kill(os.getpid(), signal.SIGINT)
        control.progress("rollout", 1, 8)
        with pytest.raises(UserInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_the_run_even_where_python_drops_exceptions(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, seen = {0, 1}, list[object]()

    def end(reference: object) -> None:
        seen.append(reference)
        signal.raise_signal(number)

    reference = weakref.ref(kept, end)
    with unwind_on_sigterm(), stop_on_signals(make_control(), lambda text: None):
        signal.raise_signal(number)
        del kept
        with pytest.raises(UserInterrupt):
            time.sleep(30)
    assert seen == [reference]
    assert capsys.readouterr().err == ""
