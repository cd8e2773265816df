"""A client that leaves ends the generation, in OpenAI's other APIs as in chat completions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from slow_engine import Slow

from astuner_devkit import until_so


async def ask(client: Any, api: str, **asked: Any) -> Any:
    if api == "responses":
        return await client.responses.create(model="any", input="hello", **asked)
    return await client.completions.create(model="any", prompt="hello", **asked)


@pytest.mark.asyncio
@pytest.mark.parametrize("way", ["client", "socket_client"])
@pytest.mark.parametrize("api", ["responses", "completions"])
async def test_a_client_that_leaves_cancels_the_generation(serving: Any, way: str, api: str) -> None:
    engine = Slow()
    async with serving(engine=engine) as stage:
        client = getattr(stage, way)()
        task = asyncio.create_task(ask(client, api))
        await until_so(lambda: engine.under_way)
        task.cancel()
        await until_so(lambda: not engine.under_way)
        await until_so(lambda: stage.recorder.calls)
        call = stage.recorder.calls[0]
    assert (call.finish_reason, call.untrained, call.output_ids.tolist()) == ("abort", "aborted", [70, 71])


@pytest.mark.asyncio
@pytest.mark.parametrize("way", ["client", "socket_client"])
@pytest.mark.parametrize("api", ["responses", "completions"])
async def test_a_client_that_leaves_a_stream_cancels_the_generation(serving: Any, way: str, api: str) -> None:
    engine = Slow()
    async with serving(engine=engine) as stage:
        stream = await ask(getattr(stage, way)(), api, stream=True)
        await anext(aiter(stream))
        assert engine.under_way
        await stream.close()
        await until_so(lambda: not engine.under_way)
        await until_so(lambda: stage.recorder.calls)
