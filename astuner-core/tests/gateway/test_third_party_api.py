"""A wire API of another distribution: one file and one entry point, served with all that the gateway promises."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import httpx
import ollama_chat
import pytest
from ollama_chat import OLLAMA_CHAT

from astuner.contract.schema import Capabilities, Chunk, Request
from astuner.contract.token_streams import stream_ids
from astuner.settings.plugins.catalog import Catalog
from astuner_devkit.contracts import WireApiContract

USER = [{"role": "user", "content": "hello"}]
ADD = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}},
}
CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'


class TestOllamaChat(WireApiContract):
    component = OLLAMA_CHAT
    body: ClassVar = {"messages": USER, "stream": False}
    streamed_body: ClassVar = {"messages": USER}


@pytest.fixture
def ollama(fake_distribution: Callable[..., Path]) -> None:
    source = Path(ollama_chat.__file__).read_text(encoding="utf-8")
    point = {"astuner.wire_apis": {"ollama_chat": "acme_ollama:OLLAMA_CHAT"}}
    fake_distribution("acme-ollama", files={"acme_ollama.py": source}, entry_points=point)


@asynccontextmanager
async def socket_client(stage: Any) -> AsyncIterator[httpx.AsyncClient]:
    api = stage.recorder.tuner.as_oai_baseurl_apikey("scout")
    root = api.base_url.removesuffix("/v1")
    async with httpx.AsyncClient(base_url=root, headers={"authorization": f"Bearer {api.api_key}"}) as client:
        yield client


@pytest.mark.asyncio
async def test_it_is_imported_when_its_path_is_first_called(serving: Any, ollama: None) -> None:
    async with serving("four") as stage, socket_client(stage) as client:
        await client.post("/v1/chat/completions", json={"messages": USER})
        assert "acme_ollama" not in sys.modules
        answer = (await client.post("/api/chat", json={"messages": USER, "stream": False})).json()
        assert "acme_ollama" in sys.modules
    assert (answer["message"]["content"], answer["done"], answer["done_reason"]) == ("four", True, "stop")


@pytest.mark.asyncio
async def test_a_turn_with_tools_is_streamed_line_by_line_and_continues_the_recorded_tokens(serving: Any, ollama: None) -> None:
    async with serving([f"let me see\n{CALL}", "one"]) as stage, socket_client(stage) as client:
        response = await client.post("/api/chat", json={"messages": USER, "tools": [ADD]})
        lines = [json.loads(line) for line in response.text.splitlines()]
        calls = [call for line in lines for call in line["message"].get("tool_calls", ())]
        text = "".join(line["message"]["content"] for line in lines)
        again = [*USER, {"role": "assistant", "content": text, "tool_calls": calls}, {"role": "tool", "content": "1"}]
        await client.post("/api/chat", json={"messages": again, "tools": [ADD]})
    assert response.headers["content-type"] == "application/x-ndjson"
    assert calls == [{"function": {"name": "add", "arguments": {"a": 1}}}]
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    first, second = stage.recorder.calls
    assert (second.parent, second.kept) == (0, len(stream_ids([first, second], 0)))


class Gated:
    """Says a part, and the rest once it may."""

    capabilities = Capabilities()

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def release(self, session: str) -> None: ...

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        yield Chunk(ids=[70, 71], logprobs=[-1.0, -1.0])
        await self.gate.wait()
        yield Chunk(ids=[72], logprobs=[-1.0], finish_reason="length")


@pytest.mark.asyncio
async def test_a_client_in_the_gateways_process_gets_a_stream_that_its_body_does_not_mention(serving: Any, ollama: None) -> None:
    engine = Gated()
    async with serving(engine=engine) as stage:
        tuner = stage.recorder.tuner
        api, client = tuner.as_oai_baseurl_apikey(), tuner.http_client("openai")
        headers = {"authorization": f"Bearer {api.api_key}"}
        url = f"{api.base_url.removesuffix('/v1')}/api/chat"
        async with asyncio.timeout(20), client.stream("POST", url, json={"messages": USER}, headers=headers) as response:
            parts = response.aiter_lines()
            assert not json.loads(await anext(parts))["done"]
            assert not engine.gate.is_set()
            engine.gate.set()
            assert json.loads([line async for line in parts][-1])["done_reason"] == "length"


@pytest.mark.asyncio
async def test_its_refusals_have_its_shape(serving: Any, ollama: None) -> None:
    async with serving() as stage, socket_client(stage) as client:
        refused = await client.post("/api/chat", json={"messages": USER, "format": {"type": "object"}})
        unknown = await client.post("/api/generate", json={})
        listed = await client.get("/api/tags")
    assert (refused.status_code, "format" in refused.json()["error"]) == (400, True)
    assert (unknown.status_code, unknown.json()["error"][:18]) == (404, "POST /api/generate")
    assert listed.json() == {"models": [{"name": "astuner", "model": "astuner"}]}


@pytest.mark.asyncio
async def test_one_that_the_configuration_disables_is_not_served(serving: Any, ollama: None) -> None:
    async with serving(gateway={"disabled_plugins": ["acme-ollama"]}) as stage, socket_client(stage) as client:
        assert (await client.post("/api/chat", json={"messages": USER})).status_code == 404


@pytest.mark.asyncio
async def test_one_that_cannot_be_imported_is_blamed_and_the_others_are_served(
    serving: Any, ollama: None, fake_distribution: Callable[..., Path]
) -> None:
    points = {"astuner.wire_apis": {"a_broken": "acme_broken:API", "an_odd": "acme_odd:API"}}
    fake_distribution("acme-broken", files={"acme_broken.py": "import nowhere", "acme_odd.py": "API = 5"}, entry_points=points)
    async with serving("four") as stage, socket_client(stage) as client:
        answer = await client.post("/api/chat", json={"messages": USER, "stream": False})
        missing = (await client.post("/api/nothing", json={})).json()["error"]
    assert answer.status_code == 200
    assert "wire_api 'a_broken' from acme-broken 1.0" in missing
    assert (
        "wire_api 'an_odd' from acme-broken 1.0 (acme_odd:API) is not an astuner.model.gateway.wire_apis.WireApi: int" in missing
    )


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "path", ["/v1/messages", "/v1/responses", "/v1/completions", "/v1beta/models/m:generateContent", "/v1/models/m:countTokens"]
)
async def test_an_api_of_a_package_that_is_not_installed_is_answered_with_its_command(
    serving: Any, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    hide_wire_apis(monkeypatch)
    async with serving() as stage, socket_client(stage) as client:
        refused = await client.post(path, json={"messages": USER})
    assert refused.status_code == 404
    assert refused.json()["error"]["code"] == "wire_api_not_installed"
    assert "pip install" in refused.json()["error"]["message"]
    assert "astuner-wire-apis" in refused.json()["error"]["message"]


@pytest.mark.asyncio
async def test_a_client_of_such_an_api_is_refused_before_it_asks(serving: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_wire_apis(monkeypatch)
    monkeypatch.setattr("astuner.model.gateway.tuner.import_anthropic", lambda: None)
    async with serving() as stage:
        with pytest.raises(ImportError, match=r"needs /v1/messages, .* not installed: pip install .*wire-apis"):
            stage.recorder.tuner.as_raw_anthropic_sdk_client()


def hide_wire_apis(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide our own package, which may be installed where these tests run."""
    monkeypatch.setattr("astuner.model.gateway.route_table.is_installed", lambda package: False)
    monkeypatch.setattr("astuner.model.gateway.route_table.Catalog.discover", lambda *args, **kwargs: Catalog())
