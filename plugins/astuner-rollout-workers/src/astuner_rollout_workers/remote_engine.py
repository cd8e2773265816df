"""The engine of a worker: its own over the same models where there is one, and the driver's otherwise."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing
from typing import Any, cast

from attrs import define, field

from astuner.contract.errors import RunFailed
from astuner.contract.protocols import Engine
from astuner.contract.schema import Capabilities, Chunk, Request
from astuner.shared.busy_time import BusyTime
from astuner.shared.clients.llm_budget import Limits
from astuner_rollout_workers.messages import (
    AbandonCall,
    Acquire,
    CallFailed,
    CallResult,
    Chat,
    Generate,
    Release,
    Tokens,
)


@define(eq=False)
class DriverCalls:
    """Calls of the driver that are under way."""

    send: Callable[[Any], None]
    _answers: dict[int, asyncio.Queue[Any]] = field(factory=dict, init=False)
    _numbers: Iterator[int] = field(factory=itertools.count, init=False)

    def take(self, message: Tokens | CallResult | CallFailed) -> None:
        """Deliver an answer; one that is no longer waited for is dropped."""
        if (answers := self._answers.get(message.call)) is not None:
            answers.put_nowait(message)

    async def chat(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the answer of a chat-only engine; raises what it raised."""
        call = next(self._numbers)
        answer: Mapping[str, Any] = await self._ask(call, Chat(call=call, body=body))
        return answer

    async def acquire(self, budget: int, limits: Limits, text: str, max_tokens: int) -> int:
        """Reserve what a request to an LLM may cost, and return the number of the call; raises `LLMBudgetSpent`."""
        call = next(self._numbers)
        await self._ask(call, Acquire(call=call, budget=budget, limits=limits, text=text, max_tokens=max_tokens))
        return call

    async def generate(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Yield the tokens of a request; raises what the engine raised."""
        call = next(self._numbers)
        async with aclosing(self._converse(call, Generate(call=call, request=request))) as answers:
            async for answer in answers:
                if answer.chunk is None:
                    return
                yield answer.chunk

    async def _ask(self, call: int, message: Any) -> Any:
        async with aclosing(self._converse(call, message)) as answers:
            return (await anext(answers)).value

    async def _converse(self, call: int, message: Any) -> AsyncGenerator[Any, None]:
        answers = self._answers[call] = asyncio.Queue()
        self.send(message)
        over = False
        try:
            while True:
                answer = await answers.get()
                over = isinstance(answer, CallFailed | CallResult) or answer.chunk is None
                if isinstance(answer, CallFailed):
                    raise answer.error.restore()
                yield answer
        finally:
            del self._answers[call]
            if not over:
                self.send(AbandonCall(call=call))


class RemoteEngine:
    """Passes requests on. A request that its own engine cannot begin is left to the driver's, which may replace servers."""

    def __init__(self, calls: DriverCalls, capabilities: Capabilities) -> None:
        """`capabilities` are those of the driver's engine."""
        self._calls = calls
        self._own: Engine | None = None
        self._asked: set[str] = set()
        self._busy = BusyTime()
        self.capabilities = capabilities

    @property
    def busy_s(self) -> float | None:
        """The seconds so far in which its own engine had a request; None without one."""
        return None if self._own is None and not self._busy.seconds else self._busy.seconds

    async def take(self, access: Any) -> None:
        """Open an engine of its own in place of an earlier one; None leaves all requests to the driver's."""
        earlier, self._own = self._own, None
        if earlier is not None:
            await earlier.close()
        if access is not None:
            own: Engine = access.open()
            await own.start()
            self._own = own

    async def start(self) -> None:
        """Nothing to do: the driver's is running."""

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield the tokens of a request as they come. Closing the iterator cancels the request."""
        own = self._own
        if own is not None:
            begun = False
            try:
                with self._busy.count():
                    async with aclosing(cast("AsyncGenerator[Chunk, None]", own.generate(request))) as stream:
                        async for chunk in stream:
                            begun = True
                            yield chunk
                return
            except Exception:
                if begun:
                    raise
        self._asked.add(request.session)
        async with aclosing(self._calls.generate(request)) as answer:
            async for chunk in answer:
                yield chunk

    async def chat(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer one request in OpenAI's chat form."""
        return await self._calls.chat(dict(body))

    async def release(self, session: str) -> None:
        """Release the resources of a session."""
        if self._own is not None:
            await self._own.release(session)
        if session in self._asked:
            self._asked.discard(session)
            self._calls.send(Release(session=session))

    async def update_weights(self, ref: Any, version: int) -> None:
        """Refuse: the driver exchanges weights."""
        raise RunFailed("the weights of an engine are exchanged in the driver, and not by a worker")

    async def pause(self) -> None:
        """Nothing to do: the driver pauses its engine between rounds."""

    async def resume(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Close its own engine."""
        await self.take(None)
