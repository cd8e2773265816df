"""Coroutines for callers that are not asynchronous, also where an event loop runs."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from astuner.shared.clients import blocking
from astuner.shared.clients.blocking import Run, call_with_runner, run_blocking


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


async def call_in_a_loop() -> int:
    return run_blocking(double(21))


def cancel_current_task(once: threading.Event) -> None:
    """Cancel from another thread: the loop is held up meanwhile, so that this is how Ctrl-C does it too."""
    task = asyncio.current_task()
    assert task is not None

    def cancel() -> None:
        once.wait(60)
        task.cancel()

    threading.Thread(target=cancel, daemon=True).start()


def test_a_coroutine_runs_with_and_without_a_running_loop() -> None:
    assert run_blocking(double(21)) == 42
    assert asyncio.run(call_in_a_loop()) == 42


def test_several_coroutines_run_one_after_the_other() -> None:
    def work(run: Run) -> list[int]:
        return [run(double(1)), run(double(2))]

    async def inside() -> list[int]:
        return call_with_runner(work)

    assert call_with_runner(work) == asyncio.run(inside()) == [2, 4]


def test_what_is_raised_is_the_same_error_in_a_loop() -> None:
    async def fail() -> None:
        raise LookupError("no such thing")

    async def inside() -> None:
        run_blocking(fail())

    with pytest.raises(LookupError, match="no such thing"):
        asyncio.run(inside())


def test_cancelling_the_caller_ends_the_work_before_the_caller_goes_on() -> None:
    began, ended = threading.Event(), threading.Event()

    async def wait_for_ever() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def inside() -> None:
        cancel_current_task(once=began)
        try:
            run_blocking(wait_for_ever())
        finally:
            assert ended.is_set()

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(inside())


def test_a_cancellation_in_the_first_moment_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    class CancelsAtOnce(threading.Thread):
        """Cancels the task of the caller before the caller waits."""

        def start(self) -> None:
            task.cancel()
            super().start()

    async def inside() -> None:
        nonlocal task
        task = asyncio.current_task()
        monkeypatch.setattr(blocking.threading, "Thread", CancelsAtOnce)
        run_blocking(asyncio.sleep(5))
        reached.append("the work's end")

    task: Any = None
    reached: list[str] = []
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(inside())
    assert reached == []


def test_no_coroutine_begins_once_the_caller_was_cancelled() -> None:
    began, ended = threading.Event(), threading.Event()

    def work(run: Run) -> None:
        began.set()
        try:
            while True:
                run(double(1))
        finally:
            ended.set()

    async def inside() -> None:
        cancel_current_task(once=began)
        call_with_runner(work)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(inside())
    assert ended.is_set()
