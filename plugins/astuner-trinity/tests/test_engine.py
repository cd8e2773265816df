"""The engine over a server like vLLM's: exact ids, and errors that say what the server did."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("aiohttp")

from aiohttp import web
from attrs import evolve

from astuner.contract.errors import RunFailed
from astuner.contract.schema import Chunk, Request, Sampling
from astuner_devkit.run_infos import run_info
from astuner_trinity.explorer.engine import ActorEngine, EngineLost, ServerEngine, Versions, make_engine

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
ASKED = Request(
    id="r", session="s", prompt_ids=[5, 6, 7], sampling=Sampling(temperature=0.7, top_k=20, max_tokens=9, seed=2**63 + 5)
)


class Remote:
    """A method of a Ray actor."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    def remote(self, *arguments: Any, **named: Any) -> Any:
        self.asked.append((arguments, named))

        async def found() -> Any:
            return self.answer

        return found()


class Actor:
    def __init__(self, version: int = 3) -> None:
        self.get_model_version = Remote(version)
        self.get_lora_request = Remote("adapter")


def event(ids: list[int], logprobs: list[float], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"token_ids": ids, "logprobs": {"token_logprobs": logprobs}, "finish_reason": finish}]}


KEY = "k" * 64


@web.middleware
async def require_key(request: web.Request, handler: Any) -> web.StreamResponse:
    """As the server of a guarded engine does."""
    if request.headers.get("authorization") != f"Bearer {KEY}":
        return web.json_response({}, status=401)
    found: web.StreamResponse = await handler(request)
    return found


@asynccontextmanager
async def engine_over(answer: Answer, *, guarded: bool = True) -> AsyncIterator[ServerEngine]:
    app = web.Application(middlewares=[require_key] if guarded else [])
    app.add_routes([web.post("/v1/completions", answer)])
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
    engine = ServerEngine(f"http://127.0.0.1:{port}", "model", Versions(Actor()), key=KEY, max_model_len=100)
    try:
        await engine.start()
        yield engine
    finally:
        await engine.close()
        await runner.cleanup()


def make_answer(*events: Any, status: int = 200, done: bool = True) -> tuple[Answer, list[Any]]:
    """Return an answer that sends these, and where it writes down what it was asked."""
    asked: list[Any] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(await request.json())
        if status != 200:
            return web.json_response({"error": "no such model"}, status=status)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for one in events:
            text = one if isinstance(one, str) else json.dumps(one)
            await response.write(f"data: {text}\n\n".encode())
        if done:
            await response.write(b"data: [DONE]\n\n")
        return response

    return answer, asked


async def chunks(engine: Any) -> list[Chunk]:
    return [chunk async for chunk in engine.generate(ASKED)]


@pytest.mark.asyncio
async def test_ids_go_in_and_come_out_with_their_probabilities_and_weights() -> None:
    answer, asked = make_answer(event([1, 2], [-0.5, -0.25]), event([3], [-1.0], "stop"), {"choices": [], "usage": {}})
    async with engine_over(answer) as engine:
        found = await chunks(engine)
        assert engine.busy_s > 0
    assert [(list(one.ids), list(one.logprobs), one.weight_version, one.finish_reason) for one in found] == [
        ([1, 2], [-0.5, -0.25], 3, None),
        ([3], [-1.0], 3, "stop"),
    ]
    (body,) = asked
    assert body["prompt"] == [5, 6, 7]
    assert (body["temperature"], body["top_k"], body["max_tokens"]) == (0.7, 20, 9)
    assert body["return_token_ids"] is True
    # vLLM would draw the tokens of each such request on its own.
    assert "seed" not in body


@pytest.mark.asyncio
async def test_seeds_are_sent_where_they_are_asked_for() -> None:
    answer, asked = make_answer(event([1], [-0.5], "stop"))
    async with engine_over(answer) as engine:
        seeded = ServerEngine(engine._address, "model", Versions(Actor()), key=KEY, max_model_len=100, seeded=True)
        await seeded.start()
        await chunks(seeded)
        await seeded.close()
    assert [body["seed"] for body in asked] == [5]


@pytest.mark.parametrize(("settings", "sent"), [({}, False), ({"seed": 0}, True)])
@pytest.mark.parametrize("adapter", [False, True])
def test_a_seed_of_the_sampling_asks_for_them(tmp_path: Path, settings: dict[str, int], sent: bool, adapter: bool) -> None:
    run = run_info(tmp_path)
    run = evolve(run, config=evolve(run.config, rollout=evolve(run.config.rollout, **settings)))
    model = SimpleNamespace(enable_lora=adapter, model=Actor(), api_address="http://127.0.0.1:1", model_name="model", api_key=KEY)
    assert make_engine(model, run, Versions(model.model))._seeded is sent  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("events", "status", "done", "said"),
    [
        ([], 404, True, "answered 404"),
        ([{"choices": [{"text": "x", "finish_reason": "stop"}]}], 200, True, "no token ids"),
        ([event([1, 2], [-0.5])], 200, True, "2 token ids with 1 log-probabilities"),
        ([event([1], [-0.5])], 200, True, "ended an answer before its end"),
        (["{"], 200, True, "invalid JSON"),
        ([{"error": {"message": "out of memory"}}], 200, True, "out of memory"),
    ],
)
@pytest.mark.asyncio
async def test_what_is_no_answer_is_an_error(events: list[Any], status: int, done: bool, said: str) -> None:
    answer, _ = make_answer(*events, status=status, done=done)
    async with engine_over(answer) as engine:
        with pytest.raises(EngineLost, match=said):
            await chunks(engine)


@pytest.mark.asyncio
async def test_a_server_that_is_gone_is_an_error() -> None:
    answer, _ = make_answer()
    async with engine_over(answer) as engine:
        pass
    lost = ServerEngine(engine._address, "model", Versions(Actor()), key=KEY, max_model_len=100)
    with pytest.raises(EngineLost, match="ConnectError"):
        await lost.start()
    with pytest.raises(EngineLost, match="ConnectError"):
        await chunks(lost)
    await lost.close()


@pytest.mark.asyncio
async def test_a_server_that_answers_without_the_key_is_refused() -> None:
    answer, _ = make_answer()
    with pytest.raises(RunFailed, match="answers 404 to a request without the run's key"):
        async with engine_over(answer, guarded=False):
            pass


@pytest.mark.asyncio
async def test_adapters_are_asked_for_through_the_actor() -> None:
    class Output:
        token_ids = (4, 5)
        logprobs = ({4: type("L", (), {"logprob": -0.5})}, {5: type("L", (), {"logprob": -1.5})})
        finish_reason = "length"

    actor: Any = Actor(version=8)
    actor._generate_internal = Remote(type("Found", (), {"outputs": [Output()]}))
    (chunk,) = await chunks(ActorEngine(actor, Versions(actor, steps_before=40), max_model_len=100))
    assert (list(chunk.ids), list(chunk.logprobs), chunk.weight_version, chunk.finish_reason) == (
        [4, 5],
        [-0.5, -1.5],
        48,
        "length",
    )
    ((_, named),) = actor._generate_internal.asked
    assert named["lora_request"] == "adapter"
    assert named["prompt"] == {"prompt_token_ids": [5, 6, 7]}
