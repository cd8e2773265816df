"""What clients, containers and browsers expect of a server besides the API: health, keys, encodings, origins, embeddings."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import httpx
import openai
import pytest
from attrs import define, field

from astuner.model.gateway.embeddings import EmbeddingsServer

USER = [{"role": "user", "content": "hello"}]
BODY = {"model": "any", "messages": USER}


def address(stage: Any) -> str:
    return str(stage.recorder.tuner.as_oai_baseurl_apikey().base_url).removesuffix("/v1")


def key(stage: Any) -> str:
    return str(stage.recorder.tuner.as_oai_baseurl_apikey().api_key)


@pytest.mark.asyncio
@pytest.mark.parametrize("path", ["/health", "/healthz"])
async def test_health_needs_no_key(serving: Any, path: str) -> None:
    async with serving() as stage, httpx.AsyncClient(base_url=address(stage)) as client:
        assert (await client.get(path)).status_code == (await client.head(path)).status_code == 200
        assert (await client.post(path)).status_code == 405


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("GZIP", gzip.compress), ("br", bytes), ("gzip, identity", bytes)]
)
async def test_a_compressed_body_is_refused_by_its_encoding(serving: Any, encoding: str, pack: Any) -> None:
    async with serving() as stage, httpx.AsyncClient(base_url=address(stage)) as client:
        headers = {"authorization": f"Bearer {key(stage)}", "content-encoding": encoding, "content-type": "application/json"}
        response = await client.post("/v1/chat/completions", content=pack(json.dumps(BODY).encode()), headers=headers)
        plain = await client.post("/v1/chat/completions", json=BODY, headers={**headers, "content-encoding": "identity"})
    assert (response.status_code, response.json()["error"]["code"]) == (415, "unsupported_content_encoding")
    assert encoding.lower() in response.json()["error"]["message"]
    assert plain.status_code == 200


@pytest.mark.asyncio
async def test_the_client_of_azure_is_served(serving: Any) -> None:
    async with serving("three") as stage:
        known = {"azure_endpoint": address(stage), "api_key": key(stage), "api_version": "2024-10-21", "max_retries": 0}
        async with openai.AsyncAzureOpenAI(**known) as client:
            answer = await client.chat.completions.create(model="my-deployment", messages=USER)
    assert answer.choices[0].message.content == "three"


@pytest.mark.asyncio
async def test_a_wrong_key_of_azure_is_refused(serving: Any) -> None:
    async with serving() as stage, httpx.AsyncClient(base_url=address(stage)) as client:
        assert (await client.post("/v1/chat/completions", json=BODY, headers={"api-key": "no"})).status_code == 401


ORIGIN = "http://localhost:5173"
ASKS = {
    "origin": ORIGIN,
    "access-control-request-method": "POST",
    "access-control-request-headers": "authorization,x-stainless-os",
}


@pytest.mark.asyncio
async def test_no_page_may_call_it_by_default(serving: Any) -> None:
    async with serving() as stage, httpx.AsyncClient(base_url=address(stage)) as client:
        asked = await client.options("/v1/chat/completions", headers=ASKS)
        called = await client.post("/v1/chat/completions", json=BODY, headers={"origin": ORIGIN, "api-key": key(stage)})
    assert asked.status_code == 405
    assert [name for response in (asked, called) for name in response.headers if name.startswith("access-control")] == []


@pytest.mark.asyncio
@pytest.mark.parametrize("origins", [[ORIGIN, "https://other.example"], ["*"]])
async def test_a_page_of_an_origin_that_is_named_may(serving: Any, origins: list[str]) -> None:
    async with serving(gateway={"cors_origins": origins}) as stage, httpx.AsyncClient(base_url=address(stage)) as client:
        asked = await client.options("/v1/chat/completions", headers=ASKS)
        called = await client.post("/v1/chat/completions", json=BODY, headers={"origin": ORIGIN, "api-key": key(stage)})
        refused = await client.post("/v1/chat/completions", json=BODY, headers={"origin": ORIGIN})
    assert (asked.status_code, called.status_code, refused.status_code) == (204, 200, 401)
    assert {one.headers["access-control-allow-origin"] for one in (asked, called, refused)} == {ORIGIN}
    assert asked.headers["access-control-allow-headers"] == "authorization,x-stainless-os"
    assert "POST" in asked.headers["access-control-allow-methods"]


@pytest.mark.asyncio
async def test_a_page_of_another_origin_may_not(serving: Any) -> None:
    async with serving(gateway={"cors_origins": [ORIGIN]}) as stage, httpx.AsyncClient(base_url=address(stage)) as client:
        asked = await client.options("/v1/chat/completions", headers={**ASKS, "origin": "http://evil.example"})
    assert "access-control-allow-origin" not in asked.headers


@define
class Embedder:
    url: str = ""
    seen: list[Any] = field(factory=list)
    status: int = 200


@pytest.fixture
def embedder() -> Iterator[Embedder]:
    found = Embedder()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            found.seen.append((self.path, self.headers["authorization"], body))
            data = [{"object": "embedding", "index": 0, "embedding": [0.5, -1.0]}]
            usage = {"prompt_tokens": 1, "total_tokens": 1}
            answer = json.dumps({"object": "list", "data": data, "model": "e", "usage": usage}).encode()
            self.send_response(found.status)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.asyncio
@pytest.mark.parametrize("way", ["client", "socket_client"])
async def test_embeddings_come_from_the_address_that_is_named(
    serving: Any, embedder: Embedder, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMBEDDING_KEY", "secret")
    server = EmbeddingsServer(url=embedder.url, key_env="EMBEDDING_KEY")
    async with serving(gateway={"embedder": server}) as stage:
        found = await getattr(stage, way)().embeddings.create(model="bge", input=["a text"], encoding_format="float")
    assert found.data[0].embedding == [0.5, -1.0]
    [(path, sent, body)] = embedder.seen
    assert (path, sent, body["model"], body["input"]) == ("/v1/embeddings", "Bearer secret", "bge", ["a text"])
    assert stage.recorder.calls == ()


@pytest.mark.asyncio
async def test_embeddings_want_a_key_of_an_episode(serving: Any, embedder: Embedder) -> None:
    server = EmbeddingsServer(url=embedder.url)
    async with serving(gateway={"embedder": server}) as stage, httpx.AsyncClient(base_url=address(stage)) as client:
        response = await client.post("/v1/embeddings", json={"input": "a"}, headers={"api-key": "no"})
    assert (response.status_code, embedder.seen) == (401, [])


@pytest.mark.asyncio
async def test_without_an_address_the_key_of_the_configuration_is_named(serving: Any) -> None:
    async with serving() as stage:
        with pytest.raises(openai.NotFoundError, match=r"set gateway\.embeddings"):
            await stage.client().embeddings.create(model="bge", input="a")


@pytest.mark.asyncio
async def test_an_address_that_does_not_answer_is_a_503_that_names_it(serving: Any) -> None:
    async with serving(gateway={"embedder": EmbeddingsServer(url="http://127.0.0.1:9/v1")}) as stage:
        with pytest.raises(openai.InternalServerError, match=r"gateway\.embeddings, http://127\.0\.0\.1:9/v1, does not answer"):
            await stage.client(max_retries=0).embeddings.create(model="bge", input="a")
