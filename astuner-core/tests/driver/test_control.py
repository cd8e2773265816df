"""Stopping a run by a signal."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from astuner.containment.user_code import UserCode, find_running_code
from astuner.driver.control import RunControl, stop_on_signals


def make_control() -> RunControl:
    nothing: Any = None
    return RunControl(store=nothing, hooks=nothing, resume_step=0, notify=nothing, progress=nothing)


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
