"""The client of an auxiliary LLM against a real server on loopback."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from astuner.clients.llm import LLMClient, LLMFailed, Patience
from astuner.clients.llm_endpoint import Endpoint
from astuner.testing.scripted_api import Reply, ScriptedApi, make_completion, scripted_api

QUESTION = [{"role": "user", "content": "2 + 2?"}]
BUSY = Reply(429, {"error": {"message": "slow down"}})


@pytest.fixture
def server() -> Iterator[ScriptedApi]:
    with scripted_api("4") as running:
        yield running


def by_key(server: ScriptedApi, answer: Callable[[str], str | Reply]) -> None:
    """Let the server answer by the key of a request."""
    server.script = lambda body, number: answer(server.keys[number])


def client(server: ScriptedApi, *keys: str, backup: tuple[str, ...] = (), **patience: Any) -> LLMClient:
    endpoint = Endpoint(base_url=server.url, keys=keys or ("key-one",), backup=backup, keys_from="SOME_KEY")
    return LLMClient(endpoint, "big", Patience(**{"first_pause_s": 0.0, "timeout_s": 20.0, **patience}))


def ask(llm: LLMClient, **more: Any) -> str:
    return asyncio.run(llm.ask(QUESTION, max_tokens=9, **more))


def test_a_question_is_answered(server: ScriptedApi) -> None:
    assert ask(client(server), temperature=0.5) == "4"
    assert server.bodies == [{"model": "big", "messages": QUESTION, "max_tokens": 9, "temperature": 0.5}]
    assert server.keys == ["key-one"]


@pytest.mark.parametrize("failure", [BUSY, Reply(500, {}), Reply(503, {}), Reply(0)], ids=["429", "500", "503", "cut"])
def test_what_may_pass_is_tried_again(server: ScriptedApi, failure: Any) -> None:
    server.script = lambda body, number: failure if number < 2 else "4"
    assert ask(client(server)) == "4"
    assert len(server.bodies) == 3


def test_patience_has_an_end(server: ScriptedApi) -> None:
    server.script = lambda body, number: BUSY
    with pytest.raises(LLMFailed, match=r"LLM 'big' at http://127.0.0.1:\d+/v1 answered 429"):
        ask(client(server, max_retries=2))
    assert len(server.bodies) == 3


def test_a_bad_request_is_not_sent_again(server: ScriptedApi) -> None:
    server.script = lambda body, number: Reply(400, {"error": {"message": "no such model"}})
    with pytest.raises(LLMFailed, match=r"answered 400.*no such model"):
        ask(client(server))
    assert len(server.bodies) == 1


def test_an_answer_without_text_is_a_failure(server: ScriptedApi) -> None:
    server.script = lambda body, number: make_completion(" ", finish_reason="length")
    with pytest.raises(LLMFailed, match=r"holds no text \(finish_reason: length\)"):
        ask(client(server))
    assert len(server.bodies) == 1


def test_the_wait_that_the_api_asks_for_is_kept(server: ScriptedApi) -> None:
    server.script = lambda body, number: "4" if number else Reply(429, {}, {"retry-after": "3600"})
    with pytest.raises(LLMFailed, match=r"no answer within 3 s"):
        ask(client(server, timeout_s=3.0))
    assert len(server.bodies) == 1


def test_an_endless_answer_ends_with_the_time_limit(server: ScriptedApi) -> None:
    server.pause_s = 1.0
    with pytest.raises(LLMFailed, match=r"no answer within 0\.3 s"):
        ask(client(server, timeout_s=0.3))


def test_requests_take_the_keys_in_turn(server: ScriptedApi) -> None:
    llm = client(server, "a", "b")
    for _ in range(3):
        ask(llm)
    assert server.keys == ["a", "b", "a"]


def test_a_refused_key_gives_way_to_the_others_and_the_backup(server: ScriptedApi) -> None:
    by_key(server, lambda key: "4" if key == "good" else Reply(401, {"error": {"message": "bad key"}}))
    assert ask(client(server, "a", "b", backup=("good",))) == "4"
    assert server.keys == ["a", "b", "good"]


def test_every_key_is_tried_before_anything_is_waited_for(server: ScriptedApi) -> None:
    by_key(server, lambda key: "4" if key == "good" else Reply(429, {}, {"retry-after": "3600"}))
    assert ask(client(server, "a", "b", backup=("good",), max_retries=0)) == "4"
    assert server.keys == ["a", "b", "good"]


@pytest.mark.parametrize("keys", [("bad", "good"), ("good", "bad"), ("bad", "bad", "good")])
def test_a_refused_key_takes_no_patience_from_the_others(server: ScriptedApi, keys: tuple[str, ...]) -> None:
    busy = iter((True, True, False))
    by_key(server, lambda key: Reply(401, {}) if key == "bad" else BUSY if next(busy) else "4")
    assert ask(client(server, *keys, max_retries=2)) == "4"
    assert (server.keys.count("bad"), server.keys.count("good")) == (1, 3)


def test_a_key_that_has_patience_left_is_not_called_refused(server: ScriptedApi) -> None:
    by_key(server, lambda key: Reply(401, {}) if key == "bad" else BUSY)
    with pytest.raises(LLMFailed, match="answered 429"):
        ask(client(server, "good", "bad", max_retries=1))


def test_a_password_in_the_address_is_not_told() -> None:
    gone = Endpoint(base_url="http://bob:secret@127.0.0.1:9/v1", keys=("k",), keys_from="K")
    with pytest.raises(LLMFailed, match=r"LLM 'big' at http://127\.0\.0\.1:9/v1") as caught:
        ask(LLMClient(gone, "big", Patience(max_retries=0)))
    assert "secret" not in str(caught.value)


def test_a_refused_key_names_its_variable_and_is_not_shown(server: ScriptedApi) -> None:
    by_key(server, lambda key: Reply(401, {"error": {"message": f"Incorrect API key: {key}"}}))
    with pytest.raises(LLMFailed, match=r"answered 401.*environment variable SOME_KEY") as caught:
        ask(client(server))
    assert "key-one" not in str(caught.value)
    assert len(server.bodies) == 1


def test_only_so_many_requests_are_under_way(server: ScriptedApi) -> None:
    server.pause_s = 0.3
    llm = client(server, concurrency=3)

    async def crowd() -> list[str]:
        return await asyncio.gather(*(llm.ask(QUESTION, max_tokens=9) for _ in range(12)))

    assert asyncio.run(crowd()) == ["4"] * 12
    assert server.most_under_way == 3


def test_one_client_serves_several_loops_and_keeps_no_connection(server: ScriptedApi) -> None:
    llm = client(server)
    assert [ask(llm), ask(llm)] == ["4", "4"]
    deadline = time.monotonic() + 10
    while server.connections and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server.connections == 0


def test_a_server_that_is_not_there_is_named() -> None:
    gone = LLMClient(Endpoint(base_url="http://127.0.0.1:9/v1", keys=("k",), keys_from="K"), "big", Patience(max_retries=0))
    with pytest.raises(LLMFailed, match=r"LLM 'big' at http://127\.0\.0\.1:9/v1 could not be reached"):
        ask(gone)


def test_making_a_client_imports_no_sdk() -> None:
    code = (
        "import sys; from astuner.clients.llm import LLMClient; from astuner.clients.llm_endpoint import Endpoint; "
        "LLMClient(Endpoint(base_url='u', keys=('k',), keys_from='K'), 'm'); "
        "sys.exit(any(name in sys.modules for name in ('openai', 'httpx', 'httpx2')))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
