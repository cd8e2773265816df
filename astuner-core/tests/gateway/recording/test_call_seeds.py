"""Random numbers of calls: an answer that the agent never got is not replaced by another one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from attrs import define, field

from astuner.contract.schema import Capabilities, Chunk, Request
from astuner.model.rendering import TemplateRenderer

pytestmark = pytest.mark.asyncio
USER = [{"role": "user", "content": "hi"}]


@define(eq=False)
class SlowEngine:
    """Begins an answer, and ends it unless `never` or `fails`."""

    renderer: TemplateRenderer
    seeds: list[int] = field(factory=list)
    never: bool = True
    fails: bool = False
    began: asyncio.Event = field(factory=asyncio.Event)
    capabilities: Capabilities = field(factory=Capabilities)

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def release(self, session: str) -> None: ...

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        self.seeds.append(request.sampling.seed)
        ids = self.renderer.encode("yes").tolist()
        yield Chunk(ids=ids, logprobs=[-1.0] * len(ids))
        self.began.set()
        if self.fails:
            raise RuntimeError("lost")
        if self.never:
            await asyncio.Event().wait()
        yield Chunk(ids=[2], logprobs=[-1.0], finish_reason="stop")


async def ask(stage: Any, *, stream: bool = False) -> None:
    answer = await stage.client().chat.completions.create(model="any", messages=USER, stream=stream)
    if stream:
        async for _ in answer:
            pass


async def leave(stage: Any, engine: SlowEngine, *, stream: bool = False) -> None:
    """Ask, and leave as soon as the engine is at work."""
    engine.began.clear()
    asking = asyncio.create_task(ask(stage, stream=stream))
    await engine.began.wait()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    while stage.recorder._turns:
        await asyncio.sleep(0)


async def test_a_client_that_asks_again_for_an_answer_it_never_saw_gets_the_same_numbers(serving: Any, renderer: Any) -> None:
    engine = SlowEngine(renderer)
    async with serving(engine=engine) as stage:
        await leave(stage, engine)
        await leave(stage, engine)
        engine.never = False
        await ask(stage)
        await ask(stage)
    first, second, third, fourth = engine.seeds
    assert first == second == third != fourth


async def test_a_client_that_left_in_the_middle_of_a_stream_gets_other_numbers(serving: Any, renderer: Any) -> None:
    engine = SlowEngine(renderer)
    async with serving(engine=engine) as stage:
        await leave(stage, engine, stream=True)
        engine.never = False
        await ask(stage)
    assert engine.seeds[0] != engine.seeds[1]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_that_failed_is_asked_again_with_the_same_numbers(serving: Any, renderer: Any, stream: bool) -> None:
    engine = SlowEngine(renderer, never=False, fails=True)
    async with serving(engine=engine) as stage:
        with pytest.raises(openai.APIError):
            await ask(stage, stream=stream)
        engine.fails = False
        await ask(stage)
    assert engine.seeds[0] == engine.seeds[1]


async def test_a_call_next_to_an_abandoned_one_keeps_its_own_numbers(serving: Any, renderer: Any) -> None:
    engine = SlowEngine(renderer)
    async with serving(engine=engine) as stage:
        others = [asyncio.create_task(ask(stage)) for _ in range(2)]
        while len(engine.seeds) < 2:
            await asyncio.sleep(0)
        others[0].cancel()
        await asyncio.gather(others[0], return_exceptions=True)
        while len(stage.recorder._turns) > 1:
            await asyncio.sleep(0)
        engine.never = False
        await ask(stage)
        others[1].cancel()
        await asyncio.gather(others[1], return_exceptions=True)
    assert engine.seeds[2] == engine.seeds[0] != engine.seeds[1]
