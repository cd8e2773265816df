"""The lowest cost of a call of `rollout_workers.py`: the same conversations through the OpenAI SDK, over canned answers."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from recorder_servers import Stub
from traffic import TOOLS, first_messages, results

from astuner.model.gateway.plain_openai import client_library


def make_canned_client(body: bytes, turn_s: float) -> Any:
    """Make an HTTP client that gets the same answer after a while, whatever it asks."""
    http = client_library("openai")

    class Canned(http.AsyncBaseTransport):  # type: ignore[misc, name-defined] # the library is known only at run time
        async def handle_async_request(self, request: Any) -> Any:
            await asyncio.sleep(turn_s)
            return http.Response(200, headers=[(b"content-type", b"application/json")], content=body)

    return http.AsyncClient(transport=Canned())


async def measure_bare_cpu_ms(tokenizer: Any, *, episodes: int, concurrent: int, turns: int, turn_s: float) -> float:
    """Return the CPU milliseconds of a call."""
    import openai

    http_client = make_canned_client(Stub(tokenizer, 0.0, token_ids=False).whole, turn_s)
    places = asyncio.Semaphore(concurrent)

    async def converse(name: str) -> None:
        async with places:
            client: Any = openai.AsyncOpenAI(base_url="http://model/v1", api_key="x", max_retries=0, http_client=http_client)
            messages: list[Any] = first_messages(name)
            for turn in range(turns):
                answer = await client.chat.completions.create(model="any", messages=messages, tools=TOOLS)
                messages += results(name, turn, answer.choices[0].message.model_dump(exclude_none=True))

    await converse("first")
    before = time.process_time()
    await asyncio.gather(*(converse(f"bare/{number}") for number in range(episodes)))
    return 1000 * (time.process_time() - before) / (episodes * turns)
