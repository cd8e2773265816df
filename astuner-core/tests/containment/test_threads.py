"""Threads for users' code on a machine that has no room for one more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from astuner.episodes.containment import threads
from astuner.episodes.containment.threads import start_thread

pytestmark = pytest.mark.asyncio


@pytest.fixture
def narrow_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The machine has room for one of the threads; that one ends when the event is set."""
    end, room = threading.Event(), threading.Semaphore(1)
    start, run = threading.Thread.start, threading.Thread.run

    def refuse(thread: threading.Thread) -> None:
        if not thread.name.startswith("held"):
            return start(thread)
        if not room.acquire(blocking=False):
            raise RuntimeError("can't start new thread")
        return start(thread)

    def release(thread: threading.Thread) -> None:
        run(thread)
        if thread.name.startswith("held"):
            room.release()

    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr(threading.Thread, "run", release)
    yield end
    end.set()


async def test_a_refused_one_is_started_when_another_has_ended(narrow_machine: threading.Event) -> None:
    begun = threading.Event()
    await start_thread(narrow_machine.wait, "held first")
    second = asyncio.create_task(start_thread(begun.set, "held second"))
    done, _ = await asyncio.wait({second}, timeout=0.3)
    assert not done
    assert not begun.is_set()
    narrow_machine.set()
    await second
    assert await asyncio.to_thread(begun.wait, 60)


async def test_a_caller_may_stop_waiting(narrow_machine: threading.Event) -> None:
    await start_thread(narrow_machine.wait, "held first")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await start_thread(lambda: None, "held second")


async def test_a_refusal_is_raised_when_there_is_no_other_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(threads, "_STARTED", set())
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        await start_thread(lambda: None, "refused")
