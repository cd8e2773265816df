"""Rollouts that end early because the user stopped the run."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from typing import TypeVar

from astuner.breakpoints.stopping import expects_stops
from astuner.contract.protocols import Control
from astuner.episodes.containment.code_lines import find_line_of_thread
from astuner.episodes.containment.guarded_loop import OwnedTask

Played = TypeVar("Played")

BLOCKED_AFTER_S = 5.0
"""After a stop, users' code that has blocked the event loop for this long is interrupted."""


def cancel_on_stop(control: Control, loop: asyncio.AbstractEventLoop, cancel: Callable[[], object]) -> None:
    """Call `cancel` in the loop, which belongs to this thread, as soon as a stop is requested.

    Users' code that blocks the loop would hold that up, so it is interrupted as by a second Ctrl-C, which ends the run.
    """
    thread = threading.current_thread()

    def stop() -> None:
        if loop.is_closed():
            return
        loop.call_soon_threadsafe(cancel)
        if thread is threading.main_thread() and not expects_stops():
            watching = threading.Thread(target=_watch_blocking, args=(control, loop), name="astuner-stop-watchdog", daemon=True)
            watching.start()

    control.on_stop(stop)


def _watch_blocking(control: Control, loop: asyncio.AbstractEventLoop) -> None:
    """Interrupt the main thread whenever users' code has blocked its loop for too long, until the loop is closed."""
    main, named = threading.main_thread().ident or 0, set[str | None]()
    while not loop.is_closed():
        turned = threading.Event()
        try:
            loop.call_soon_threadsafe(turned.set)
        except RuntimeError:
            return  # closed meanwhile
        if turned.wait(BLOCKED_AFTER_S):
            turned.clear()
            turned.wait(BLOCKED_AFTER_S / 10)
            continue
        task = asyncio.current_task(loop)
        line = find_line_of_thread(main, in_loop=True)
        # The run's own tasks may block it for minutes: an engine that starts, or takes new weights.
        if (task is None and line is not None) or (isinstance(task, OwnedTask) and task.code is not None):
            if line not in named:
                named.add(line)
                control.notify(
                    f"the stop cannot take effect, since users' code blocks the event loop{f' at {line}' if line else ''}: it is "
                    "interrupted. Code that blocks needs rollout.isolation: thread or process"
                )
            # Shells start background processes with SIGINT ignored.
            signal.pthread_kill(main, signal.SIGTERM)


async def wait_until_stopped(playing: asyncio.Task[Played], control: Control) -> Played | None:
    """Return what is played; None if a stop was requested, for which the caller cancels `playing`.

    What is cancelled half-way may end with an error of its own, which a warning then reports.
    """
    if control.stop:
        playing.cancel()
    try:
        return await playing
    except asyncio.CancelledError:
        if not control.stop:
            raise
    except Exception as error:
        if not control.stop:
            raise
        control.notify(f"while stopping: {type(error).__name__}: {error}", "warning")
    return None
