"""Workflows that raise what ends a program, swallow what ends them, and reach for what is not theirs; imported by name too."""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from typing import Any, ClassVar

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask
from astuner.episodes.containment.endings import UserQuit


class Unruly(Workflow):
    """Misbehaves in the first repeat, and gives the others a reward."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        if workflow_task.repeat == 0:
            await self.misbehave()
        return WorkflowOutput(reward=1.0)

    async def misbehave(self) -> None:
        raise NotImplementedError


class LeaksCancelled(Unruly):
    async def misbehave(self) -> None:
        raise asyncio.CancelledError


class IsQuitInADebugger(Unruly):
    async def misbehave(self) -> None:
        raise UserQuit


class AwaitsCancelled(Unruly):
    async def misbehave(self) -> None:
        inner = asyncio.create_task(asyncio.sleep(60))
        inner.cancel()
        await inner


class CancelsItself(Unruly):
    async def misbehave(self) -> None:
        here = asyncio.current_task()
        assert here is not None
        here.cancel()
        await asyncio.sleep(0)


class ParsesArguments(Unruly):
    async def misbehave(self) -> None:
        argparse.ArgumentParser(add_help=False).parse_args(["--no-such-option"])


class ExitsInATask(Unruly):
    async def misbehave(self) -> None:
        async def use_tool() -> None:
            raise SystemExit(3)

        await asyncio.gather(use_tool(), asyncio.sleep(0.01))


class Interrupts(Unruly):
    async def misbehave(self) -> None:
        raise KeyboardInterrupt


class ClosesGenerators(Unruly):
    async def misbehave(self) -> None:
        raise GeneratorExit


class Odd(BaseException):
    """Neither an `Exception` nor one of Python's own."""


class RaisesOdd(Unruly):
    async def misbehave(self) -> None:
        raise Odd("odd")


class CancelsAll(Unruly):
    async def misbehave(self) -> None:
        for task in asyncio.all_tasks():
            task.cancel()
        await asyncio.sleep(0)


class CancelsAllAndReturns(Unruly):
    async def misbehave(self) -> None:
        for task in asyncio.all_tasks():
            task.cancel()


class StopsTheLoop(Unruly):
    async def misbehave(self) -> None:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0.01)
        raise ValueError("still here")


class Exits(Unruly):
    async def misbehave(self) -> None:
        os._exit(0)


class Swallows(Unruly):
    calls: ClassVar[list[Any]] = []

    async def misbehave(self) -> None:
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.calls.append("swallowed")


class SwallowsInATask(Unruly):
    async def misbehave(self) -> None:
        self.left = asyncio.create_task(Swallows().misbehave())


class IsCancelledOverAndOver(Unruly):
    """What anyio does to a task in a cancelled scope that it does not leave: here it awaits a task that does not end."""

    async def misbehave(self) -> None:
        loop, here = asyncio.get_running_loop(), asyncio.current_task()
        assert here is not None

        def cancel() -> None:
            if not here.done():
                here.cancel()
                loop.call_soon(cancel)

        awaited = asyncio.create_task(Swallows().misbehave())
        await asyncio.sleep(0)
        loop.call_soon(cancel)
        await awaited


class BlocksForSeconds(Unruly):
    async def misbehave(self) -> None:
        time.sleep(4)


class MakesNothing(Workflow):
    def __init__(self) -> None:
        raise SystemExit(5)

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        return WorkflowOutput(reward=1.0)
