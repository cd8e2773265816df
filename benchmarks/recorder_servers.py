"""The servers that `recorder.py` compares, each in a process of its own: `stub`, `gateway`, `naive`."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping, Sequence
from typing import Any

import numpy as np
import uvicorn
from attrs import define, field
from traffic import ANSWER
from words import help_tokenizer

from astuner.contract.schema import Capabilities, Chunk, Request, Sampling
from astuner.model.gateway import EpisodeSpec, Gateway
from astuner.model.rendering import TemplateRenderer

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

CHUNK_TOKENS = 8
LOGPROB = -0.5


def answer_ids(tokenizer: Any) -> list[int]:
    """Return the ids that the model samples each time."""
    return [*tokenizer.encode(ANSWER, add_special_tokens=False), tokenizer.eos_token_id]


@define(eq=False)
class CannedEngine:
    """An engine that says the same each time."""

    ids: Sequence[int]
    delay_s: float
    capabilities: Capabilities = field(factory=Capabilities)

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield the answer, a few tokens at a time."""
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        for start in range(0, len(self.ids), CHUNK_TOKENS):
            part = self.ids[start : start + CHUNK_TOKENS]
            last = start + CHUNK_TOKENS >= len(self.ids)
            yield Chunk(ids=part, logprobs=[LOGPROB] * len(part), finish_reason="stop" if last else None)

    async def start(self) -> None:
        """Nothing to load."""

    async def release(self, session: str) -> None:
        """Nothing is kept."""

    async def close(self) -> None:
        """Nothing is open."""


async def read(receive: Receive) -> bytes:
    """Return a request's body."""
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def send_json(send: Send, body: bytes) -> None:
    """Send a whole answer."""
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def message(tokenizer: Any, ids: Sequence[int]) -> dict[str, Any]:
    """Read the answer as a message."""
    content, _, block = str(tokenizer.decode(ids[:-1])).partition("<tool_call>")
    called = json.loads(block.removesuffix("</tool_call>"))
    function = {"name": called["name"], "arguments": json.dumps(called["arguments"])}
    calls = [{"id": "call00001", "type": "function", "function": function}]
    return {"role": "assistant", "content": content.strip(), "tool_calls": calls, "refusal": None}


def completion(reply: dict[str, Any], prompt_tokens: int, completion_tokens: int, **extra: Any) -> dict[str, Any]:
    """Return a chat completion, as OpenAI has it."""
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    usage["total_tokens"] = prompt_tokens + completion_tokens
    choice = {"index": 0, "message": reply, "logprobs": None, "finish_reason": "tool_calls", **extra}
    head = {"id": "chatcmpl-0", "object": "chat.completion", "created": 1, "model": "m", "system_fingerprint": None}
    return {**head, "choices": [choice], "usage": usage}


class Stub:
    """Gives the same bytes to every request, and looks at none of them.

    With `token_ids` it answers as an inference server does that was asked for ids and logprobs: what a proxy records.
    """

    def __init__(self, tokenizer: Any, delay_s: float, token_ids: bool) -> None:
        """Prepare the bytes."""
        self._delay_s = delay_s
        ids = answer_ids(tokenizer)
        reply = message(tokenizer, ids)
        extra: dict[str, Any] = {}
        if token_ids:
            shown = [{"token": tokenizer.decode([n]), "logprob": LOGPROB, "bytes": None, "top_logprobs": []} for n in ids]
            extra = {"token_ids": ids, "logprobs": {"content": shown}}
        body = completion(reply, 1000, len(ids), **extra)
        if token_ids:
            body["prompt_token_ids"] = list(range(100, 1100))
        self.whole = json.dumps(body, separators=(",", ":")).encode()
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        words = reply["content"].split(" ")
        deltas += [{"content": " ".join(words[start : start + 2])} for start in range(0, len(words), 2)]
        deltas += [{"tool_calls": [{"index": 0, **reply["tool_calls"][0]}]}, {}]
        head = {"id": "chatcmpl-0", "object": "chat.completion.chunk", "created": 1, "model": "m", "system_fingerprint": None}
        choices = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None} for delta in deltas]
        choices[-1]["finish_reason"] = "tool_calls"
        self._events = [b"data: " + json.dumps({**head, "choices": [choice]}).encode() + b"\n\n" for choice in choices]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        body = await read(receive)
        if self._delay_s and scope["method"] == "POST":
            await asyncio.sleep(self._delay_s)
        if b'"stream": true' not in body[-40:]:
            await send_json(send, self.whole)
            return
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for event in self._events:
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})


class Naive:
    """Renders and encodes every request whole, and keeps one row per call."""

    def __init__(self, tokenizer: Any, delay_s: float) -> None:
        """`rows` grows with every call."""
        self._tokenizer = tokenizer
        self._delay_s = delay_s
        self._ids = answer_ids(tokenizer)
        self.rows: list[dict[str, Any]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        body = json.loads(await read(receive))
        messages = [self._read(said) for said in body["messages"]]
        prompt = self._tokenizer.apply_chat_template(
            messages, tools=body.get("tools"), add_generation_prompt=True, tokenize=True, return_dict=False
        )
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        reply = message(self._tokenizer, self._ids)
        arrays = {"prompt_ids": np.asarray(prompt, np.int32), "output_ids": np.asarray(self._ids, np.int32)}
        self.rows.append({**arrays, "logprobs": np.full(len(self._ids), LOGPROB, np.float32), "reply": reply})
        await send_json(send, json.dumps(completion(reply, len(prompt), len(self._ids))).encode())

    def _read(self, said: dict[str, Any]) -> dict[str, Any]:
        if not said.get("tool_calls"):
            return said
        functions = [call["function"] for call in said["tool_calls"]]
        calls = [{"type": "function", "function": {**f, "arguments": json.loads(f["arguments"])}} for f in functions]
        return {**said, "tool_calls": calls}


def spec(number: int, max_model_len: int = 1_000_000) -> EpisodeSpec:
    """Describe an episode of the gateway."""
    return EpisodeSpec(
        episode_id=f"train/1/{number}/0",
        seed=number,
        sampling=Sampling(max_tokens=400),
        max_model_len=max_model_len,
        trainable_targets=None,
    )


async def serve(kind: str, episodes: int, delay_s: float, max_model_len: int) -> None:
    """Serve until the standard input ends; say the port and the keys, and per line of input how much is recorded."""
    tokenizer = help_tokenizer()
    loop = asyncio.get_running_loop()
    if kind == "gateway":
        engine = CannedEngine(answer_ids(tokenizer), delay_s)
        gateway = Gateway(engine, TemplateRenderer(tokenizer))  # type: ignore[arg-type] # it has what the gateway calls
        await gateway.start()
        recorders = [gateway.open_episode(spec(number, max_model_len)) for number in range(episodes)]
        endpoints = [recorder.tuner.as_oai_baseurl_apikey() for recorder in recorders]
        port, keys = int(endpoints[0].base_url.rpartition(":")[2].partition("/")[0]), [found.api_key for found in endpoints]
    else:
        app = Naive(tokenizer, delay_s) if kind == "naive" else Stub(tokenizer, delay_s, kind == "upstream")
        # As the gateway's own server is configured.
        server = uvicorn.Server(
            uvicorn.Config(app, port=0, lifespan="off", ws="none", access_log=False, log_config=None, log_level="warning")
        )
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port, keys = server.servers[0].sockets[0].getsockname()[1], ["x"] * episodes
    print(json.dumps({"port": port, "keys": keys}), flush=True)
    while await loop.run_in_executor(None, sys.stdin.readline):
        calls = [call for recorder in recorders for call in recorder.calls] if kind == "gateway" else []
        fed, sampled = sum(len(call.prompt_ids) for call in calls), sum(len(call.output_ids) for call in calls)
        print(json.dumps({"calls": len(calls), "fed": fed, "sampled": sampled}), flush=True)
    if kind == "gateway":
        await gateway.close()
    else:
        server.should_exit = True
        await serving


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["stub", "upstream", "gateway", "naive"])
    parser.add_argument("--episodes", type=int, default=1)
    parser.add_argument("--delay-s", type=float, default=0.0)
    parser.add_argument("--max-model-len", type=int, default=1_000_000)
    given = parser.parse_args()
    asyncio.run(serve(given.kind, given.episodes, given.delay_s, given.max_model_len))
