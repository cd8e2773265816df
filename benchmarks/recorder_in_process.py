"""The part of `recorder.py` for clients in the gateway's process.

The OpenAI SDK over canned answers, over our transport with the stub behind it, and over our transport with the gateway.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from typing import Any

from recorder_servers import CannedEngine, Stub, answer_ids, spec
from traffic import TOOLS, first_messages, results
from words import help_tokenizer

from astuner.model.gateway import Gateway
from astuner.model.gateway.plain_openai import client_library
from astuner.model.gateway.transport import make_client
from astuner.model.rendering import TemplateRenderer

CONVERSATIONS, TURNS, WARM_UP = 20, 10, 2


def canned_client(body: bytes) -> Any:
    """Make an HTTP client that gets the same answer whatever it asks."""
    http = client_library("openai")

    class Canned(http.AsyncBaseTransport):  # type: ignore[misc, name-defined] # the library is known only at run time
        async def handle_async_request(self, request: Any) -> Any:
            return http.Response(200, headers=[(b"content-type", b"application/json")], content=body)

    return http.AsyncClient(transport=Canned())


async def cpu_ms(client: Any, name: str) -> float:
    """Hold some conversations; return the CPU milliseconds per call, the SDK's own included."""
    before = time.process_time()
    for number in range(CONVERSATIONS):
        messages = first_messages(f"{name}-{number}")
        for turn in range(TURNS):
            answer = await client.chat.completions.create(model="m", messages=messages, tools=TOOLS)
            messages += results(name, turn, answer.choices[0].message.model_dump(exclude_none=True))
    return 1e3 * (time.process_time() - before) / (CONVERSATIONS * TURNS)


async def measure(rounds: int) -> dict[str, float]:
    """Measure all three in turn."""
    import openai

    tokenizer = help_tokenizer()
    gateway = Gateway(CannedEngine(answer_ids(tokenizer), 0.0), TemplateRenderer(tokenizer))  # type: ignore[arg-type] # as there
    await gateway.start()
    recorder = gateway.open_episode(spec(0))
    recorded = recorder.tuner.as_raw_openai_sdk_client()
    stub = Stub(tokenizer, 0.0, token_ids=False)
    same = {"base_url": "http://127.0.0.1/v1", "api_key": "x", "max_retries": 0}
    canned = openai.AsyncOpenAI(**same, http_client=canned_client(stub.whole))  # type: ignore[arg-type] # they are of three types
    carried = make_client(stub, asyncio.get_running_loop(), client_library("openai"))
    clients = [canned, openai.AsyncOpenAI(**same, http_client=carried), recorded]  # type: ignore[arg-type] # as above
    rows = [[await cpu_ms(client, f"{number}") for client in clients] for number in range(rounds + WARM_UP)][WARM_UP:]
    await gateway.close()
    return {
        "canned_cpu_ms": statistics.median(row[0] for row in rows),
        "transport_cpu_ms": statistics.median(row[1] for row in rows),
        "gateway_cpu_ms": statistics.median(row[2] for row in rows),
        "added_by_transport_cpu_ms": statistics.median(row[1] - row[0] for row in rows),
        "added_cpu_ms": statistics.median(row[2] - row[0] for row in rows),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    print(json.dumps(asyncio.run(measure(parser.parse_args().rounds))))
