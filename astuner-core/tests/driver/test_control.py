"""Stopping a run by a signal."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from astuner.driver.control import RunControl, stop_on_signals


@pytest.mark.parametrize("error", [BrokenPipeError, RuntimeError, ImportError])
def test_a_signal_stops_the_run_even_when_nobody_can_be_told(error: type[Exception]) -> None:
    nothing: Any = None
    control = RunControl(store=nothing, hooks=nothing, resume_step=0, notify=nothing, progress=nothing)

    def gone(text: str) -> None:
        raise error

    with stop_on_signals(control, gone):
        os.kill(os.getpid(), signal.SIGTERM)
    assert control.stop
