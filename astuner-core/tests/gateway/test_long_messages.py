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
from openai import BadRequestError

from astuner.model.gateway.recording.body_limit import BYTES_PER_TOKEN, FREE_BYTES, MOST_BYTES, BodyLimit
from astuner.model.gateway.recording.prompt_placer import CHARACTERS_PER_TOKEN
from astuner.model.rendering import TemplateRenderer
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
}


def client_of(stage: Any, recorder: Any) -> httpx.AsyncClient:
    key = recorder.tuner.as_oai_baseurl_apikey().api_key
    root = stage.gateway.base_url.removesuffix("/v1")
    return httpx.AsyncClient(base_url=root, headers={"Authorization": f"Bearer {key}"}, timeout=None, trust_env=False)


@pytest.fixture
def held(renderer: TemplateRenderer, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Keep the threads that encode at the door until they are let in."""
    door, arrived = threading.Event(), threading.Event()
    real: Callable[..., Any] = renderer.encode

    def encode(text: str) -> Any:
        arrived.set()
        door.wait()
        return real(text)

    monkeypatch.setattr(renderer, "encode", encode)
    door.arrived = arrived  # type: ignore[attr-defined]
    yield door
    door.set()


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", HUGE_BODIES)
async def test_a_prompt_that_cannot_fit_is_refused_in_the_shape_of_a_full_context(serving: Any, kind: str) -> None:
    path, body = HUGE_BODIES[kind]
    async with serving("yes", max_model_len=500) as stage, client_of(stage, stage.recorder) as client:
        refused = await client.post(path, json={"model": "m", **body})
        short = await client.post(path, json={"model": "m", **body, "messages": [user("word " * 600)]})
        assert (await client.post("/v1/chat/completions", json={"model": "m", "messages": ASK})).status_code == 200
    assert refused.status_code == 400
    assert short.status_code == 400
    assert refused.json().keys() == {"error"}
    assert {**refused.json()["error"], "message": ""} == {**short.json()["error"], "message": ""}
    assert "maximum context length is 500 tokens" in refused.json()["error"]["message"]
    assert len(stage.recorder.calls) == 1


def test_the_limit_of_a_body_follows_from_the_context() -> None:
    assert BodyLimit.derive(500) == BodyLimit(FREE_BYTES + 500 * BYTES_PER_TOKEN, 500)
    assert BodyLimit.derive(10_000_000) == BodyLimit(MOST_BYTES, 10_000_000)


@pytest.mark.asyncio
async def test_a_body_that_is_too_large_for_the_context_counts_as_the_agent_s_failure(serving: Any) -> None:
    async with serving("yes", max_model_len=500) as stage:
        with pytest.raises(BadRequestError) as refused:
            await stage.client().chat.completions.create(model="m", messages=[user(HUGE)])
        assert refused.value.code == "context_length_exceeded"
    assert stage.recorder.failures.reason == "context_full"


@pytest.mark.asyncio
async def test_of_a_text_that_cannot_fit_only_the_beginning_is_encoded(
    serving: Any, renderer: TemplateRenderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[int] = []
    real = renderer.encode
    monkeypatch.setattr(renderer, "encode", lambda text: encoded.append(len(text)) or real(text))
    async with serving("yes", max_model_len=500) as stage, client_of(stage, stage.recorder) as client:
        refused = await client.post("/v1/chat/completions", json={"model": "m", "messages": [user(LONG)]})
    assert re.search(r"is 500 tokens, and the messages already take at least \d+", refused.json()["error"]["message"])
    assert encoded == [500 * CHARACTERS_PER_TOKEN]


@pytest.mark.asyncio
async def test_a_configured_limit_replaces_that_of_the_context(serving: Any) -> None:
    body = {"model": "m", "messages": ASK, "metadata": {"x": HUGE}}
    limit = {"max_body_bytes": 3 << 20}
    async with serving("yes", max_model_len=500, gateway=limit) as stage, client_of(stage, stage.recorder) as client:
        assert (await client.post("/v1/chat/completions", json=body)).status_code == 200


@pytest.mark.asyncio
@pytest.mark.parametrize("ignored", ["x" * 500_000, [1] * 200_000])
async def test_what_is_not_in_the_prompt_is_not_counted(serving: Any, ignored: Any) -> None:
    async with serving("yes", max_model_len=500) as stage, client_of(stage, stage.recorder) as client:
        body = {"model": "m", "messages": ASK, "metadata": {"x": ignored}}
        assert (await client.post("/v1/chat/completions", json=body)).status_code == 200


@pytest.mark.asyncio
async def test_a_large_body_that_is_cut_is_refused_with_the_place(serving: Any) -> None:
    content = json.dumps({"model": "m", "messages": [user("🙂" + LONG * 10)]}, ensure_ascii=False).encode()[:-2]
    async with serving("yes", **ROOMY) as stage, client_of(stage, stage.recorder) as client:
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
        cache = stage.recorder._maker.prompts._tree._cache
        kept = len(cache._chains)
        for body in ([user(LONG)], [*ASK, {"role": "assistant", "content": LONG}, *ASK]):
            assert (await client.post("/v1/chat/completions", json={"model": "m", "messages": body})).status_code == 400
        assert len(cache._chains) == kept
