"""Running beside an event loop that is already running in this thread, as in a notebook."""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from astuner.runs.driver.control import StopSwitch, stop_on_signals

T = TypeVar("T")


def call_without_loop(act: Callable[[], T], switch: StopSwitch) -> T:
    """Call here if no event loop runs in this thread, else in another thread, and return the result.

    While this thread waits for the other one, a first Ctrl-C or SIGTERM uses the switch; a second one is raised here, and the
    other thread ends alone.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return act()
    result: Future[T] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            result.set_result(context.run(act))
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
            result.set_exception(error)

    with stop_on_signals(switch, lambda text: print(f"warning: {text}", file=sys.stderr, flush=True)):
        threading.Thread(target=work, name="astuner-run", daemon=True).start()
        return result.result()
