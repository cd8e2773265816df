"""The threads in which pages are answered."""

from __future__ import annotations

import asyncio
import threading

import pytest

from astuner_logview.server.workers import Workers


@pytest.mark.asyncio
async def test_a_slow_function_does_not_stop_the_others() -> None:
    workers, gate = Workers(2), threading.Event()
    slow = asyncio.ensure_future(workers.call(gate.wait))
    assert await workers.call(lambda: 3) == 3
    assert not slow.done()
    gate.set()
    assert await slow is True
    workers.close()


@pytest.mark.asyncio
async def test_what_a_function_raises_is_raised() -> None:
    workers = Workers(1)
    with pytest.raises(KeyError, match="gone"):
        await workers.call(lambda: {}["gone"])
    assert await workers.call(lambda: 1) == 1
    workers.close()


@pytest.mark.asyncio
async def test_a_function_that_nobody_waits_for_is_not_called() -> None:
    workers, gate, called = Workers(1), threading.Event(), []
    running = asyncio.ensure_future(workers.call(gate.wait))
    waiting = asyncio.ensure_future(workers.call(lambda: called.append(1)))
    await asyncio.sleep(0)
    waiting.cancel()
    gate.set()
    await running
    await workers.call(lambda: None)
    assert called == []
    workers.close()
