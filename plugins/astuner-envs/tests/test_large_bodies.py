"""A large body is parsed in a thread: other instances are played meanwhile."""

from __future__ import annotations

import asyncio
import json
import threading

import pytest
from starlette.requests import Request

from astuner.model.http_server import LARGE_BODY
from astuner_envs.server import body as bodies
from astuner_envs.server.faults import OddBody


def request(content: bytes) -> Request:
    async def receive():
        return {"type": "http.request", "body": content, "more_body": False}

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


def content_of(text: str) -> bytes:
    return json.dumps({"instance_id": "a", "messages": {"content": text}}).encode()


def test_the_loop_goes_on_while_a_large_body_is_parsed(monkeypatch):
    door, arrived, real = threading.Event(), threading.Event(), bodies.load_json

    def load(raw):
        if len(raw) > LARGE_BODY:
            arrived.set()
            assert door.wait(60)
        return real(raw)

    monkeypatch.setattr(bodies, "load_json", load)

    async def play():
        large = asyncio.ensure_future(bodies.read_body(request(content_of("é" * LARGE_BODY))))
        await asyncio.to_thread(arrived.wait)
        small = await bodies.read_body(request(content_of("hello")))
        assert (small.messages["content"], large.done()) == ("hello", False)
        door.set()
        assert (await large).messages["content"] == "é" * LARGE_BODY

    asyncio.run(play())


@pytest.mark.parametrize("text", ["\ud83d" + "x" * LARGE_BODY, "\ud83d"])
def test_half_a_pair_is_refused_in_a_body_of_any_size(text):
    with pytest.raises(OddBody, match="half a surrogate pair"):
        asyncio.run(bodies.read_body(request(content_of(text))))
