"""An engine that says a token and waits, for tests of calls that are cancelled or fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from astuner.contract.schema import Capabilities, Chunk, Request


class Slow:
    """Says a token and then waits for ever, unless it is to fail."""

    def __init__(self, failure: Exception | None = None, words: int = 1) -> None:
        self.capabilities = Capabilities()
        self.failure, self.words = failure, words
        self.under_way = 0
        self.released: list[str] = []

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def release(self, session: str) -> None:
        self.released.append(session)

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        self.under_way += 1
        try:
            for _ in range(self.words):
                yield Chunk(ids=[70, 71], logprobs=[-1.0, -2.0], weight_version=3)
            if self.failure is not None:
                raise self.failure
            await asyncio.Event().wait()
        finally:
            self.under_way -= 1
