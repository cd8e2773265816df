"""Serves the requests of one worker to the driver's engine and budgets, and ends them when the worker has gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, cast

from attrs import define, field

from astuner.contract.protocols import Engine
from astuner.contract.schema import Chunk, Request
from astuner_rollout_workers.messages import (
    AbandonCall,
    Acquire,
    CallFailed,
    CallResult,
    Chat,
    Generate,
    Release,
    Settle,
    Tokens,
)
from astuner_rollout_workers.portable_error import PortableError
from astuner_rollout_workers.shared_budgets import SharedBudgets


@define(eq=False, kw_only=True)
class RequestServer:
    """Serves one worker. Lives in the driver's event loop."""

    engine: Engine
    send: Callable[[Any], None]
    budgets: SharedBudgets
    _reserved: dict[int, int] = field(factory=dict, init=False)
    """The number of each reservation, by the call that made it."""
    _calls: dict[int, asyncio.Task[None]] = field(factory=dict, init=False)
    _sessions: set[str] = field(factory=set, init=False)

    def take(self, message: Any) -> None:
        """Take a message of the worker."""
        match message:
            case Generate(call=call, request=request):
                self._sessions.add(request.session)
                self._begin(call, self._generate(call, request))
            case Chat(call=call, body=body):
                self._begin(call, self._answer(call, cast("Any", self.engine).chat(body)))
            case Acquire(call=call):
                self._begin(call, self._answer(call, self._acquire(message)))
            case Settle(call=call):
                tokens = message.prompt_tokens, message.completion_tokens
                self.budgets.settle(self._reserved.pop(call), *tokens, message.requests)
            case AbandonCall(call=call):
                if (task := self._calls.get(call)) is not None:
                    task.cancel()
                if (reservation := self._reserved.pop(call, None)) is not None:
                    self.budgets.settle(reservation, 0, 0, 0)
            case Release(session=session):
                self._sessions.discard(session)
                self._begin(-1, self._release(session))

    async def close(self) -> None:
        """Cancel all calls and release the sessions: the worker has gone."""
        calls = list(self._calls.values())
        for task in calls:
            task.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        for session in sorted(self._sessions):
            await self._release(session)
        self._sessions.clear()
        for reservation in self._reserved.values():
            self.budgets.give_up(reservation)
        self._reserved.clear()

    def _begin(self, call: int, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        key = call if call >= 0 else -1 - id(task)
        self._calls[key] = task
        task.add_done_callback(lambda _: self._calls.pop(key, None))

    async def _generate(self, call: int, request: Request) -> None:
        try:
            stream = cast("AsyncGenerator[Chunk, None]", self.engine.generate(request))
            async with aclosing(stream):
                async for chunk in stream:
                    self.send(Tokens(call=call, chunk=chunk))
            self.send(Tokens(call=call, chunk=None))
        except Exception as error:  # noqa: BLE001 - the boundary for engines: the worker's call fails
            self.send(CallFailed(call=call, error=PortableError.of(error)))

    async def _answer(self, call: int, work: Awaitable[Any]) -> None:
        try:
            self.send(CallResult(call=call, value=await work))
        except Exception as error:  # noqa: BLE001 - as above, and for budgets
            self.send(CallFailed(call=call, error=PortableError.of(error)))

    async def _acquire(self, request: Acquire) -> None:
        self._reserved[request.call] = await self.budgets.acquire(request)

    async def _release(self, session: str) -> None:
        try:
            await self.engine.release(session)
        except Exception:  # noqa: BLE001 - as for one process, the records are complete without it
            return
