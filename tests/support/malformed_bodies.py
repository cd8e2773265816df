"""Malformed bodies: none of them is a failure of the gateway, keeps it busy, or is felt in another episode.

`ASTUNER_FUZZ_BODIES` says how many bodies are sent in all; `ASTUNER_FUZZ_SEED` makes them others.
A module that imports these tests has valid `BODIES` and `COUNTS` by path.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import weakref
from collections import Counter
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import httpx
import jsonschema
import pytest

COUNT = int(os.environ.get("ASTUNER_FUZZ_BODIES", "400"))
SEED = int(os.environ.get("ASTUNER_FUZZ_SEED", "1"))
AT_ONCE = 16
LARGEST = 1 << 18
"""Bytes of a body; what is longer is cut."""
LONGEST_S = 30
"""For one answer; all of them are due at once."""

CALL = '<tool_call>\n{"name": "add", "arguments": {"a":1,  "b": 2}}\n</tool_call>'
SAYS = ("yes", f"<think>\nhm\n</think>\n\nlet me see\n{CALL}\n{CALL}", "", "été 中文 🙂", "<tool_call>{", "<think>hm")
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}

JUNK: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    1.5,
    -0.0,
    2**31,
    2**63,
    10**400,
    1e308,
    float("nan"),
    float("inf"),
    "",
    " ",
    "0",
    "\x00",
    "a" * 5000,
    "\ud800",
    "\u202e",
    "</tool_call>",
    "<|im_end|>",
    "{{ messages }}",
    "{% raise %}",
    [],
    {},
    [[]],
    [None],
    [{}],
    {"": ""},
    {"type": "text"},
    {"type": None},
    {"type": []},
    {"type": {}},
    [[[[[]]]]],
    {"role": {}},
    {"a": {"b": [{"c": None}]}},
    ["\udfff"],
    "assistant",
    "tool",
    "system",
    "none",
    "required",
    "json_object",
    [0, 1, 2],
    [-1, 10**9],
    {"enable_thinking": []},
)


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    for key, child in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        found += places(child, (*path, key))
    return found


def at(body: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        body = body[key]
    return body


def replaced(body: Any, path: tuple[Any, ...], dice: random.Random) -> None:
    at(body, path[:-1])[path[-1]] = deepcopy(dice.choice(JUNK))


def removed(body: Any, path: tuple[Any, ...], dice: random.Random) -> None:
    del at(body, path[:-1])[path[-1]]


def moved(body: Any, path: tuple[Any, ...], dice: random.Random) -> None:
    at(body, path[:-1])[path[-1]] = json.loads(json.dumps(at(body, dice.choice(places(body)))))


def wrapped(body: Any, path: tuple[Any, ...], dice: random.Random) -> None:
    parent, key = at(body, path[:-1]), path[-1]
    for _ in range(dice.choice((1, 2, 60, 120))):
        parent[key] = [parent[key]] if dice.random() < 0.5 else {"type": parent[key]}


def repeated(body: Any, path: tuple[Any, ...], dice: random.Random) -> None:
    parent = at(body, path[:-1])
    if isinstance(parent, list):
        parent.extend([parent[path[-1]]] * dice.choice((1, 50)))
    else:
        parent[f"{path[-1]}_"] = parent[path[-1]]


CHANGES: tuple[Callable[[Any, tuple[Any, ...], random.Random], None], ...] = (
    replaced,
    replaced,
    replaced,
    removed,
    moved,
    wrapped,
    repeated,
)


def broken(raw: bytes, dice: random.Random) -> bytes:
    """Return bytes that are most probably no JSON, or none of the encoding that was meant."""
    start, end = sorted((dice.randrange(len(raw) + 1), dice.randrange(len(raw) + 1)))
    return dice.choice(
        (
            raw[:start],
            raw[start:],
            raw[:start] + dice.randbytes(3) + raw[end:],
            raw[:start] + raw[end:],
            raw.decode().encode("utf-16"),
            b"\xef\xbb\xbf" + raw,
            b"[" * 20000,
            b'{"messages":' * 2000,
            raw + raw,
            b"\x00" + raw,
            b"",
            raw.replace(b"1", b"1" * 5000),
            dice.randbytes(200),
        )
    )


def malformed(valid: Any, dice: random.Random) -> bytes:
    body = json.loads(json.dumps(valid))
    # Half of the bodies keep only a few fields: a stop at the first bad one would hide the others.
    for key in [key for key in body if key not in ("messages", "input", "prompt", "max_tokens") and dice.random() < 0.5]:
        del body[key]
    for _ in range(dice.choice((1, 1, 1, 2, 5))):
        found = places(body)
        if found:
            dice.choice(CHANGES)(body, dice.choice(found), dice)
    raw = json.dumps(body).encode()[:LARGEST]
    return broken(raw, dice) if dice.random() < 0.2 else raw


def says(prompt: str, request: Any) -> str:
    return SAYS[len(prompt) % len(SAYS)]


async def converse(client: httpx.AsyncClient) -> list[Any]:
    """Hold a conversation of a few turns, as any episode does."""
    messages: list[Any] = [{"role": "user", "content": "hello"}]
    for turn in range(3):
        response = await client.post("/v1/chat/completions", json={"messages": messages, "tools": [TOOL]})
        messages += [response.json()["choices"][0]["message"], {"role": "user", "content": f"go on {turn}"}]
    return messages


def client_of(stage: Any, recorder: Any) -> httpx.AsyncClient:
    key = recorder.tuner.as_oai_baseurl_apikey().api_key
    root = stage.gateway.base_url.removesuffix("/v1")
    limits = httpx.Limits(max_connections=AT_ONCE)
    return httpx.AsyncClient(base_url=root, headers={"Authorization": f"Bearer {key}"}, timeout=LONGEST_S, limits=limits)


def recorded(recorder: Any) -> list[Any]:
    return [(call.parent, call.kept, call.prompt_ids.tolist(), call.output_ids.tolist(), call.reply) for call in recorder.calls]


def check(document: Mapping[str, Any], path: str, body: bytes, response: httpx.Response) -> None:
    where = f"{path} {body[:2000]!r}: {response.status_code} {response.text[:500]}"
    assert response.status_code in (200, 400), where
    answers: Any = document["paths"][path]["post"]["responses"][str(response.status_code)]
    answers = document["components"]["responses"][answers["$ref"].rpartition("/")[2]] if "$ref" in answers else answers
    if response.headers["content-type"].startswith("text/event-stream"):
        assert '"error":{' not in response.text, where
    else:
        schema = answers["content"]["application/json"]["schema"]
        jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(response.json())


@pytest.mark.asyncio
async def test_malformed_bodies_are_answered_and_leave_no_trace(
    serving: Any, bodies: Mapping[str, Any], api_document: Mapping[str, Any]
) -> None:
    dice = random.Random(SEED)
    sent = [(path, malformed(bodies[path], dice)) for _, path in zip(range(COUNT), list(bodies) * COUNT, strict=False)]
    seen: Counter[int] = Counter()
    async with serving(says, max_model_len=40000) as stage:
        async with client_of(stage, stage.recorder) as quiet:
            alone = await converse(quiet)
        before = recorded(stage.recorder)
        fuzzed = stage.gateway.open_episode(stage.recorder.spec)
        other = stage.gateway.open_episode(stage.recorder.spec)
        tasks = len(asyncio.all_tasks())
        async with client_of(stage, fuzzed) as client, client_of(stage, other) as beside:

            async def send(queue: list[tuple[str, bytes]]) -> None:
                while queue:
                    path, body = queue.pop()
                    try:
                        response = await client.post(path, content=body)
                    except httpx.HTTPError as error:
                        raise AssertionError(f"{path} {body[:2000]!r}: {error!r}") from error
                    seen[response.status_code] += 1
                    check(api_document, path, body, response)

            conversation = asyncio.create_task(converse(beside))
            await asyncio.gather(*(send(sent) for _ in range(AT_ONCE)))
            assert await conversation == alone
        assert recorded(other) == before
        assert recorded(stage.recorder) == before
        assert all(call.untrained is None for call in fuzzed.calls)
        await fuzzed.close()
        await other.close()
        for _ in range(100):
            # The server ends its connections in tasks of its own.
            await asyncio.sleep(0.01 if len(asyncio.all_tasks()) > tasks else 0)
        assert len(asyncio.all_tasks()) <= tasks
        forgotten = weakref.ref(fuzzed)
        del fuzzed
        gc.collect()
        assert forgotten() is None
    assert seen[400] > COUNT / 4
    assert seen[200] > 0


@pytest.mark.asyncio
async def test_the_bodies_that_are_broken_here_are_whole(serving: Any, bodies: Mapping[str, Any], any_path: str) -> None:
    async with serving(says, max_model_len=40000) as stage, client_of(stage, stage.recorder) as client:
        response = await client.post(any_path, json=bodies[any_path])
    assert response.status_code == 200, response.text
