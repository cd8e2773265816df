"""A message that is too long, or takes long to read, stops nobody else: other episodes are answered while it is read."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai import BadRequestError

from astuner.model.gateway.dialects.fields import parse_body
from astuner.model.gateway.dialects.large_bodies import LargeBody
from astuner.model.http_server import patient_json
from astuner.model.http_server.patient_json import FIRST_PIECE
from astuner.model.rendering import TemplateRenderer
from astuner.model.rendering.errors import ApiError
from astuner.model.rendering.template_renderer import LONGEST_CACHED

LONG = "word " * (LONGEST_CACHED // 4)
"""Too long for the event loop, and short enough for the context of these tests."""
HUGE = "word " * 400_000
TOOL = {"type": "function", "function": {"name": "add", "description": HUGE, "parameters": {"type": "object", "properties": {}}}}
ROOMY = {"max_model_len": 10_000_000}
ASK = [{"role": "user", "content": "hello"}]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


HUGE_BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": [user(HUGE)]}),
    "chat, streamed": ("/v1/chat/completions", {"messages": [user(HUGE)], "stream": True}),
    "chat, in parts": ("/v1/chat/completions", {"messages": [user([{"type": "text", "text": HUGE[:400_000]}] * 5)]}),
    "chat, tools": ("/v1/chat/completions", {"messages": ASK, "tools": [TOOL]}),
    "chat, an old answer": ("/v1/chat/completions", {"messages": [*ASK, {"role": "assistant", "content": HUGE}, *ASK]}),
    "chat, many messages": ("/v1/chat/completions", {"messages": [user("x")] * 20_000}),
    "completions": ("/v1/completions", {"prompt": HUGE}),
    "completions, ids": ("/v1/completions", {"prompt": [5] * 200_000}),
    "completions, several": ("/v1/completions", {"prompt": ["hello", HUGE]}),
    "responses": ("/v1/responses", {"input": HUGE}),
    "responses, instructions": ("/v1/responses", {"input": "hello", "instructions": HUGE}),
    "messages": ("/v1/messages", {"messages": [user(HUGE)], "max_tokens": 9}),
    "messages, system": ("/v1/messages", {"messages": ASK, "system": HUGE, "max_tokens": 9}),
    "count_tokens": ("/v1/messages/count_tokens", {"messages": [user(HUGE)]}),
}


def client_of(stage: Any, recorder: Any) -> httpx.AsyncClient:
    key = recorder.tuner.as_oai_baseurl_apikey().api_key
    root = stage.gateway.base_url.removesuffix("/v1")
    return httpx.AsyncClient(base_url=root, headers={"Authorization": f"Bearer {key}"}, timeout=None, trust_env=False)


@pytest.fixture
def held(renderer: TemplateRenderer, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Keep the threads that encode at the door until they are let in."""
    door, arrived = threading.Event(), threading.Event()
    real: Callable[..., Any] = renderer.encode_within

    def encode(text: str, limit: int) -> Any:
        arrived.set()
        door.wait()
        return real(text, limit)

    monkeypatch.setattr(renderer, "encode_within", encode)
    door.arrived = arrived  # type: ignore[attr-defined]
    yield door
    door.set()


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", HUGE_BODIES)
async def test_a_prompt_that_cannot_fit_is_refused_in_the_shape_of_a_full_context(serving: Any, kind: str) -> None:
    path, body = HUGE_BODIES[kind]
    async with serving("yes", max_model_len=500) as stage, client_of(stage, stage.recorder) as client:
        refused = await client.post(path, json={"model": "m", **body})
        short = await client.post(path, json={"model": "m", **body, **_shorten(body, "word " * 600)})
        assert (await client.post("/v1/chat/completions", json={"model": "m", "messages": ASK})).status_code == 200
    assert refused.status_code == 400
    assert refused.json().keys() == {"error"} | ({"type"} if path.startswith("/v1/messages") else set())
    if path != "/v1/messages/count_tokens":
        assert short.status_code == 400
        assert refused.json()["error"].keys() == short.json()["error"].keys()
        assert {**refused.json()["error"], "message": ""} == {**short.json()["error"], "message": ""}
    assert "maximum context length is 500 tokens" in refused.json()["error"]["message"]
    assert len(stage.recorder.calls) == 1


def _shorten(body: dict[str, Any], text: str) -> dict[str, Any]:
    if "prompt" in body:
        return {"prompt": text}
    return {"input": text} if "input" in body else {"messages": [user(text)]}


MIXED = {"messages": [user("🙂" + HUGE)]}
UNDECODED = [kind for kind in HUGE_BODIES if kind != "chat, an old answer"]
"""What may be dropped of an old answer is not known before it is rendered."""


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", [*UNDECODED, "chat, mixed text"])
async def test_a_prompt_that_cannot_fit_is_refused_before_its_body_is_decoded(
    serving: Any, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path, body = HUGE_BODIES.get(kind, ("/v1/chat/completions", MIXED))
    decoded: list[LargeBody] = []
    monkeypatch.setattr(LargeBody, "parse", lambda self: decoded.append(self) or {})
    async with serving("yes", max_model_len=500) as stage, client_of(stage, stage.recorder) as client:
        refused = await client.post(path, json={"model": "m", **body})
    assert (refused.status_code, decoded) == (400, [])
    assert "maximum context length is 500 tokens" in refused.json()["error"]["message"]


@pytest.mark.asyncio
async def test_a_body_that_is_refused_by_its_outline_counts_as_the_agent_s_failure(serving: Any) -> None:
    async with serving("yes", max_model_len=500) as stage:
        with pytest.raises(BadRequestError) as refused:
            await stage.client().chat.completions.create(model="m", messages=MIXED["messages"])
        assert refused.value.code == "context_length_exceeded"
    assert stage.recorder.failures.reason == "context_full"


KEPT: dict[str, dict[str, Any]] = {
    "a field that is ignored": {"messages": ASK, "metadata": {"x": HUGE}},
    "a list that is ignored": {"messages": ASK, "metadata": {"x": [1] * 200_000}},
}


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", KEPT)
async def test_what_is_not_in_the_prompt_does_not_count(serving: Any, kind: str) -> None:
    async with serving("yes", max_model_len=500) as stage, client_of(stage, stage.recorder) as client:
        answered = await client.post("/v1/chat/completions", json={"model": "m", **KEPT[kind]})
    assert answered.status_code == 200


@pytest.mark.asyncio
@pytest.mark.parametrize("encoding", ["utf-16", "utf-32-le", "utf-8-sig"])
async def test_a_large_body_in_another_encoding_is_refused_too(serving: Any, encoding: str) -> None:
    async with serving("yes", max_model_len=500) as stage, client_of(stage, stage.recorder) as client:
        content = json.dumps({"model": "m", **MIXED}, ensure_ascii=False).encode(encoding)
        refused = await client.post("/v1/chat/completions", content=content, headers={"Content-Type": "application/json"})
    assert refused.json()["error"]["code"] == "context_length_exceeded"


@pytest.mark.asyncio
@pytest.mark.parametrize("cut", [1, 2, 40])
async def test_a_large_body_that_is_cut_is_refused_with_the_place(serving: Any, cut: int) -> None:
    content = json.dumps({"model": "m", **MIXED}, ensure_ascii=False).encode()[:-cut]
    async with serving("yes", max_model_len=500) as stage, client_of(stage, stage.recorder) as client:
        refused = await client.post("/v1/chat/completions", content=content)
    assert refused.status_code == 400
    assert re.search(r"not valid JSON: .* \(char \d+\)", refused.json()["error"]["message"])


@pytest.mark.asyncio
async def test_other_episodes_are_answered_while_a_long_message_is_read(serving: Any, held: Any) -> None:
    async with serving("yes", **ROOMY) as stage:
        other = stage.gateway.open_episode(stage.recorder.spec)
        async with client_of(stage, stage.recorder) as client, client_of(stage, other) as quick:
            long = asyncio.create_task(client.post("/v1/chat/completions", json={"model": "m", "messages": [user(LONG)]}))
            await asyncio.to_thread(held.arrived.wait)
            answers = [await quick.post("/v1/chat/completions", json={"model": "m", "messages": ASK}) for _ in range(3)]
            assert [answer.status_code for answer in answers] == [200] * 3
            assert not long.done()
            held.set()
            assert (await long).status_code == 200
    assert len(other.calls) == 3
    assert len(stage.recorder.calls) == 1


@pytest.mark.asyncio
@pytest.mark.parametrize("large", [False, True], ids=["a long text", "a large body"])
async def test_requests_of_one_episode_keep_their_order(serving: Any, held: Any, large: bool) -> None:
    text = LONG * (10 if large else 1)
    async with serving("yes", **ROOMY) as stage, client_of(stage, stage.recorder) as client:
        tasks = []
        for messages in ([user(text)], [user("second")], [user("third")]):
            tasks.append(asyncio.create_task(client.post("/v1/chat/completions", json={"model": "m", "messages": messages})))
            await asyncio.to_thread(held.arrived.wait)
            # The server has read the next one when it waits for the first.
            while len(stage.recorder.order._lock._waiters or ()) < len(tasks) - 1:
                await asyncio.sleep(0.001)
        assert not any(task.done() for task in tasks)
        held.set()
        assert [answer.status_code for answer in await asyncio.gather(*tasks)] == [200] * 3
    assert [call.messages[0]["content"][:6] for call in stage.recorder.calls] == [text[:6], "second", "third"]


@pytest.mark.asyncio
async def test_a_client_that_leaves_frees_its_episode_once_the_thread_is_through(serving: Any, held: Any) -> None:
    async with serving("yes", **ROOMY) as stage:
        client = stage.client()
        long = asyncio.create_task(client.chat.completions.create(model="m", messages=[user(LONG)]))
        await asyncio.to_thread(held.arrived.wait)
        long.cancel()
        with pytest.raises(asyncio.CancelledError):
            await long
        after = asyncio.create_task(client.chat.completions.create(model="m", messages=ASK))
        await asyncio.sleep(0)
        assert not after.done()
        held.set()
        assert (await after).choices[0].message.content == "yes"
    assert [call.messages for call in stage.recorder.calls] == [tuple(ASK)]


@pytest.mark.asyncio
async def test_a_long_message_is_recorded_as_a_short_one_is(serving: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(stage: Any) -> list[Any]:
        messages = [user(LONG)]
        for number in range(3):
            answer = await stage.client().chat.completions.create(model="m", messages=messages)
            messages += [answer.choices[0].message.model_dump(exclude_none=True), user(f"{number} {LONG}")]
        return [(call.parent, call.kept, call.prompt_ids.tolist(), call.output_ids.tolist()) for call in stage.recorder.calls]

    async with serving("yes", **ROOMY) as stage:
        off_the_loop = await play(stage)
    monkeypatch.setattr("astuner.model.gateway.app.LARGE_BODY", 1 << 30)
    monkeypatch.setattr("astuner.model.rendering.template_renderer.LONGEST_CACHED", 1 << 30)
    async with serving("yes", **ROOMY) as stage:
        assert await play(stage) == off_the_loop
    assert [parent for parent, *_ in off_the_loop] == [None, 0, 1]


@pytest.mark.asyncio
async def test_an_answer_that_ends_meanwhile_is_continued_by_the_next_request(serving: Any, held: Any) -> None:
    async with serving("yes", **ROOMY) as stage, client_of(stage, stage.recorder) as client:
        first = await client.post("/v1/chat/completions", json={"model": "m", "messages": ASK})
        long = asyncio.create_task(client.post("/v1/chat/completions", json={"model": "m", "messages": [user(LONG)]}))
        await asyncio.to_thread(held.arrived.wait)
        reply = first.json()["choices"][0]["message"]
        second = asyncio.create_task(
            client.post("/v1/chat/completions", json={"model": "m", "messages": [*ASK, reply, user("on")]})
        )
        await asyncio.sleep(0.01)
        held.set()
        await asyncio.gather(long, second)
    assert [call.parent for call in stage.recorder.calls] == [None, None, 0]


@pytest.mark.asyncio
async def test_nothing_is_kept_of_a_refused_message(serving: Any) -> None:
    async with serving("yes", max_model_len=500) as stage, client_of(stage, stage.recorder) as client:
        await client.post("/v1/chat/completions", json={"model": "m", "messages": ASK})
        kept = len(stage.recorder._placer.tree._cache._chains)
        for body in ([user(HUGE)], [*ASK, {"role": "assistant", "content": HUGE}, *ASK]):
            assert (await client.post("/v1/chat/completions", json={"model": "m", "messages": body})).status_code == 400
        assert len(stage.recorder._placer.tree._cache._chains) == kept


CHARACTERS = st.text(alphabet='ab"\\\n\u00e9\u4e2d\U0001f600', max_size=40)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | CHARACTERS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(CHARACTERS, inner, max_size=4),
    max_leaves=20,
)


@given(value=VALUES, times=st.integers(1, 3 * FIRST_PIECE), fill=CHARACTERS, ascii_only=st.booleans(), cut=st.integers(0, 40))
def test_a_large_body_is_parsed_as_a_small_one_is(value: Any, times: int, fill: str, ascii_only: bool, cut: int) -> None:
    raw = json.dumps({"a": value, "long": (fill * times)[: 5 * FIRST_PIECE], "b": value}, ensure_ascii=ascii_only).encode()
    for body in (raw, raw[: len(raw) - cut], raw[:-30] + b"\\" + raw[-30:]):
        assert _read(lambda raw: LargeBody.take(raw).parse(), body) == _read(parse_body, body)


@pytest.mark.parametrize("escape", [r"\"", r"\\", r"\n", r"\u00e9", r"\ud83d\ude00", r"\ud83d", r"\ude00\ud83d"])
@pytest.mark.parametrize("shift", range(13))
def test_an_escape_at_the_end_of_a_piece_is_not_torn(escape: str, shift: int) -> None:
    text = '"' + "x" * shift + escape * (2 * FIRST_PIECE) + '" rest'
    assert patient_json.scan_string(text, 1) == json.decoder.scanstring(text, 1)  # type: ignore[attr-defined]


def _read(parse: Callable[[bytes], Any], raw: bytes) -> Any:
    try:
        return parse(raw)
    except ApiError as error:
        return error.status
