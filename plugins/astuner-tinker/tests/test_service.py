"""The way to a server: keys, which server it is, SDK releases, pauses, and requests for tokens."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve

from astuner.contract.errors import ConfigError, Interrupted, RunFailed
from astuner.contract.schema import Chunk, Request, Sampling
from astuner_tinker import service
from astuner_tinker.engine import TinkerEngine
from astuner_tinker.options import Options
from astuner_tinker.probe import ServerFacts
from astuner_tinker.service import Server, Service, check_sdk, find_key, identify_server


class KeptControl:
    """A control that keeps what it shows."""

    def __init__(self) -> None:
        self.stop = False
        self.said: list[str] = []

    def notify(self, text: str, level: str = "warning") -> None:
        self.said.append(text)


@pytest.fixture
def control() -> KeptControl:
    return KeptControl()


@pytest.fixture
def connected(control: KeptControl) -> Iterator[Service]:
    server = Server(name="unknown", url="http://127.0.0.1:9", title="double")
    given: Any = control
    found = Service(SimpleNamespace(), server, "0.24.1", Options(max_in_flight=2), given, "model", "run")
    yield found
    found.close()


def test_a_key_is_the_users_or_the_sdks(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="TINKER_API_KEY holds no key for the hosted service"):
        find_key(None)
    assert find_key("http://127.0.0.1:8000") == "tml-local"
    with pytest.raises(ConfigError, match=r"holds no key for https://gpu.example"):
        find_key("https://gpu.example")
    monkeypatch.setenv("TINKER_API_KEY", "sk-of-another")
    with pytest.raises(ConfigError, match="TINKER_API_KEY holds no key: one begins with tml-") as raised:
        find_key(None)
    assert "sk-of" not in str(raised.value)
    monkeypatch.setenv("TINKER_API_KEY", "tml-mine")
    assert find_key("https://gpu.example") is None  # the SDK reads it, and it is in no file of the run


def test_credentials_that_the_sdk_keeps_are_enough(tmp_path: Path) -> None:
    (tmp_path / ".tinker").mkdir()
    (tmp_path / ".tinker/credentials.json").write_text("{}")
    assert find_key(None) is None


@pytest.fixture
def web() -> Iterator[dict[str, Any]]:
    """A server of which only the description counts; the test writes it."""
    answer: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(answer.get("status", 200))
            self.end_headers()
            self.wfile.write(answer["body"].encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    answer["url"] = f"http://127.0.0.1:{server.server_port}"
    Thread(target=server.serve_forever, daemon=True).start()
    yield answer
    server.shutdown()
    server.server_close()


def test_a_server_is_known_by_its_description(web: dict[str, Any]) -> None:
    web["body"] = json.dumps({"info": {"title": "Tinker API Mock", "version": "0.0.1"}})
    found = identify_server(web["url"])
    assert (found.name, found.title, found.sdk) == ("skyrl", "Tinker API Mock 0.0.1", ">=0.25,<0.26")
    for body, status in (("<html>", 200), ("not found", 404), (json.dumps({"info": {"title": "My own"}}), 200)):
        web.update(body=body, status=status)
        assert (identify_server(web["url"]).name, identify_server(web["url"]).sdk) == ("unknown", "")


def test_the_hosted_service_is_known_by_its_host() -> None:
    assert identify_server(None).name == identify_server("https://tinker.thinkingmachines.dev/services/x").name == "hosted"


def test_no_server_is_said_at_once() -> None:
    with pytest.raises(ConfigError, match=r"no server answers at http://127.0.0.1:1 \(ConnectError\)"):
        identify_server("http://127.0.0.1:1")


def test_the_fitting_sdk_is_named_before_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "version", lambda _: "0.38.0")
    server = Server(name="skyrl", url="http://gpu:8000", title="Tinker API Mock 0.0.1", sdk=">=0.25,<0.26")
    with pytest.raises(ConfigError, match=r"speaks with tinker>=0.25,<0.26, and 0.38.0 is installed: pip install 'tinker>=0.25"):
        check_sdk(server)
    assert check_sdk(evolve(server, sdk="")) == "0.38.0"


def test_a_refusal_names_server_and_call(connected: Service) -> None:
    future: Future[Any] = Future()
    future.set_exception(ValueError("no such\n model"))
    for call in (lambda: future, lambda: future.result()):
        with pytest.raises(RunFailed, match=r"double at http://127.0.0.1:9: a step failed: ValueError: no such model") as raised:
            connected.ask(call, "a step")
        assert raised.value.resumable


def test_a_pause_is_shown_and_a_stop_ends_the_wait(connected: Service, control: KeptControl) -> None:
    """The SDK waits for an account, a rate or a queue, for up to an hour, and says so in its log alone."""
    text = "The job is paused due to billing status. Error: no credit"

    def wait() -> Future[Any]:
        for _ in range(2):
            logging.getLogger("tinker.lib.internal_client_holder").warning(text)
        control.stop = True
        return Future()

    with pytest.raises(Interrupted, match="stopped while the server paused a training step"):
        connected.ask(wait, "a training step")
    assert control.said == [f"tinker: {text}"]


def test_a_key_that_is_not_taken_is_named(connected: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    class AuthenticationError(Exception):
        """As the SDK's is called."""

    future: Future[Any] = Future()
    future.set_exception(AuthenticationError("Error code: 401"))
    for key, says in (("", r"a run without a key: set TINKER_API_KEY \("), ("tml-old", r"the key of TINKER_API_KEY \(")):
        monkeypatch.setenv("TINKER_API_KEY", key)
        with pytest.raises(ConfigError, match=f"does not take {says}AuthenticationError: Error code: 401"):
            connected.ask(lambda: future, "a model")


def test_a_stop_ends_a_wait_before_anything_is_trained(connected: Service, control: KeptControl) -> None:
    control.stop = True
    with pytest.raises(Interrupted, match="stopped while the server was asked for a LoRA model"):
        connected.ask(lambda: Future(), "a LoRA model")


def test_a_stop_waits_for_a_step_under_way(connected: Service, control: KeptControl) -> None:
    control.stop = connected.training = True
    answer: Future[int] = Future()
    Thread(target=lambda: answer.set_result(3)).start()
    assert connected.ask(lambda: answer, "a training step") == 3


class Sampler:
    """Answers with ids that were prepared."""

    def __init__(self, tokens: tuple[int, ...] = (5, 6, 7, 8), reason: str = "length") -> None:
        self.tokens, self.reason = tokens, reason
        self.asked: list[Any] = []
        self.under_way = self.most = 0

    async def sample_async(self, prompt: Any, num_samples: int, sampling_params: Any) -> Any:
        self.asked.append(sampling_params)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0.01)
        self.under_way -= 1
        found = SimpleNamespace(tokens=self.tokens, logprobs=[-0.5] * len(self.tokens), stop_reason=self.reason)
        return SimpleNamespace(sequences=[found])


class Counting(dict[str, int]):
    def add(self, **counts: int) -> None:
        for kind, count in counts.items():
            self[kind] = self.get(kind, 0) + count


def request(**sampling: Any) -> Request:
    return Request(id="r", session="s", prompt_ids=(1, 2, 3), sampling=Sampling(**{"stop_token_ids": (9,), **sampling}))


def generate(engine: TinkerEngine, *requests: Request) -> list[list[Chunk]]:
    async def one(asked: Request) -> list[Chunk]:
        return [chunk async for chunk in engine.generate(asked)]

    async def play() -> list[list[Chunk]]:
        await engine.start()
        return list(await asyncio.gather(*map(one, requests)))

    return asyncio.run(play())


def make_engine(connected: Service, sampler: Sampler, **facts: Any) -> tuple[TinkerEngine, Counting]:
    ledger: Any = Counting()
    measured = ServerFacts(within="sum", across="adds", **facts)
    return TinkerEngine({"": (sampler, 4)}, connected, measured, ledger, 512), ledger


def test_what_a_server_ignores_is_cut_here(connected: Service) -> None:
    engine, ledger = make_engine(connected, Sampler((5, 6, 9, 7, 9)))
    ((chunk,),) = generate(engine, request())
    assert (list(chunk.ids), len(chunk.logprobs), chunk.finish_reason, chunk.weight_version) == ([5, 6, 9], 3, "stop", 4)
    # What was sampled is paid, also behind the stop token.
    assert ledger == {"prefill": 3, "sample": 5}


@pytest.mark.parametrize(
    ("facts", "sampling", "temperature", "top_k"),
    [
        ({}, {}, 1.0, -1),
        ({"greedy_at_one": True}, {}, 1.00001, -1),
        ({"greedy_at_one": True}, {"temperature": 0.0}, 0.0, -1),
        ({"greedy_at_one": True}, {"temperature": 0.7}, 0.7, -1),
        ({"whole_top_k": 1000}, {}, 1.0, 1000),
        ({"whole_top_k": 1000}, {"top_k": 5}, 1.0, 5),
        ({"whole_top_k": 1000}, {"temperature": 0.0}, 0.0, -1),
    ],
)
def test_what_was_measured_is_asked_for(
    connected: Service, facts: dict[str, Any], sampling: dict[str, Any], temperature: float, top_k: int
) -> None:
    sampler = Sampler()
    engine, _ = make_engine(connected, sampler, **facts)
    generate(engine, request(**sampling, seed=2**40 + 5))
    (asked,) = sampler.asked
    assert (asked.temperature, asked.top_k, asked.seed, list(asked.stop)) == (temperature, top_k, (2**40 + 5) % 2**31, [9])


def test_no_more_requests_are_under_way_than_allowed(connected: Service) -> None:
    sampler = Sampler()
    engine, _ = make_engine(connected, sampler)
    assert len(generate(engine, *(request(seed=number) for number in range(7)))) == 7
    assert sampler.most == 2


def test_calls_under_way_keep_the_version_they_began_with(connected: Service) -> None:
    first, second = Sampler(), Sampler((7,))
    engine, _ = make_engine(connected, first)

    async def play() -> list[int]:
        await engine.start()
        calls = [asyncio.ensure_future(anext(engine.generate(request())))]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await engine.update_weights({"": (second, 5)}, 5)
        calls.append(asyncio.ensure_future(anext(engine.generate(request()))))
        return [chunk.weight_version for chunk in await asyncio.gather(*calls)]

    assert asyncio.run(play()) == [4, 5]
