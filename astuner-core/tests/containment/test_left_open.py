"""Contexts that users' code leaves open: a line says so at the end of the loop, and no traceback."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from astuner.episodes.containment.guarded_loop import GuardedLoop


@asynccontextmanager
async def hold_scope() -> AsyncIterator[None]:
    """Hold a scope of the task that enters it, as anyio does."""
    entered = asyncio.current_task()
    try:
        yield
    finally:
        if asyncio.current_task() is not entered:
            raise RuntimeError("exited in a different task")


async def leave_open(kept: list[object]) -> None:
    context = hold_scope()
    kept.append(context)
    await asyncio.create_task(context.__aenter__())


async def fail_alone() -> None:
    async def fail() -> None:
        raise ValueError("nobody waits for this")

    await asyncio.wait([asyncio.create_task(fail())])


def test_a_context_that_cannot_be_closed_is_a_line(caplog: pytest.LogCaptureFixture) -> None:
    kept: list[object] = []
    with asyncio.Runner(loop_factory=GuardedLoop) as runner:
        runner.run(leave_open(kept))
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.exc_info is None
    text = record.getMessage()
    assert text.startswith("warning: the context hold_scope (")
    assert "test_left_open.py:" in text
    assert "could not be closed in another task: RuntimeError: exited in a different task" in text
    assert text.endswith("Use `async with`, in the task that enters it.")


def test_what_else_was_not_handled_is_logged_as_before(caplog: pytest.LogCaptureFixture) -> None:
    with asyncio.Runner(loop_factory=GuardedLoop) as runner:
        runner.run(fail_alone())
    (record,) = caplog.records
    assert record.getMessage().startswith("OwnedTask exception was never retrieved")
    assert record.exc_info
