"""The client of an auxiliary LLM against a real server on loopback."""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from astuner.shared.clients.llm import ContentFailure, LLMClient, LLMFailed, Patience
from astuner.shared.clients.llm_endpoint import Endpoint
from astuner.shared.clients.llm_options import LLMOptions
from astuner_devkit.scripted_api import Reply, ScriptedApi, make_completion, scripted_api

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
    server.script = lambda body, number: make_completion(" ")
    with pytest.raises(LLMFailed, match=r"holds no text \(finish_reason: stop\)"):
        ask(client(server))
    assert len(server.bodies) == 1


def test_a_text_next_to_a_refusal_is_a_failure(server: ScriptedApi) -> None:
    refused = make_completion("4")
    refused.body["choices"][0]["message"]["refusal"] = "I cannot help with that."
    server.script = lambda body, number: refused
    with pytest.raises(ContentFailure, match="it refused: I cannot help"):
        ask(client(server))


@pytest.mark.parametrize(("status", "is_due"), [(400, True), (413, True), (422, True), (404, False), (429, False), (500, False)])
def test_what_the_texts_of_a_question_can_cause_is_named(server: ScriptedApi, status: int, is_due: bool) -> None:
    server.script = lambda body, number: Reply(status, {})
    with pytest.raises(LLMFailed) as failed:
        ask(client(server, max_retries=0))
    assert isinstance(failed.value, ContentFailure) is is_due


def test_a_text_that_was_cut_off_is_asked_for_again_with_more_room(server: ScriptedApi) -> None:
    server.script = lambda body, number: "whole" if number else make_completion("who", finish_reason="length")
    assert ask(client(server)) == "whole"
    assert [body["max_tokens"] for body in server.bodies] == [9, 36]


@pytest.mark.parametrize(("finish", "requests"), [("length", 2), ("content_filter", 1)])
def test_a_text_that_stays_cut_off_is_a_failure(server: ScriptedApi, finish: str, requests: int) -> None:
    server.script = lambda body, number: make_completion("who", finish_reason=finish)
    with pytest.raises(LLMFailed, match=f"finish_reason: {finish}"):
        ask(client(server))
    assert len(server.bodies) == requests


def refuse(name: str, code: str = "unsupported_parameter") -> Reply:
    return Reply(400, {"error": {"message": f"'{name}' is not supported", "param": name, "code": code}})


def answer_as_reasoning_model(body: Any, number: int) -> Reply | str:
    """Answer as o-series and gpt-5 do."""
    if "max_tokens" in body:
        return refuse("max_tokens")
    return refuse("temperature", "unsupported_value") if "temperature" in body else "4"


def test_a_model_that_refuses_max_tokens_and_temperature_is_asked_without_them(server: ScriptedApi) -> None:
    server.script = answer_as_reasoning_model
    llm = client(server)
    assert ask(llm, temperature=0.0) == ask(llm, temperature=0.0) == "4"
    assert len(server.bodies) == 4
    assert server.bodies[-1] == {"model": "big", "messages": QUESTION, "max_completion_tokens": 9}


def test_what_a_model_refuses_is_reported_once(server: ScriptedApi, caplog: pytest.LogCaptureFixture) -> None:
    server.script, server.pause_s = answer_as_reasoning_model, 0.2
    llm = client(server)

    async def ask_all() -> list[str]:
        return await asyncio.gather(*(llm.ask(QUESTION, max_tokens=number) for number in range(1, 5)))

    assert asyncio.run(ask_all()) == ["4"] * 4
    assert len(server.bodies) == 8
    assert caplog.text.count("does not take max_tokens") == 1


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("limit", ["512", -5, 0, True, 1.5])
def test_a_limit_of_tokens_is_a_whole_number(name: str, limit: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} must be null or a whole number of at least 1"):
        LLMOptions(extra={name: limit})


def test_a_field_that_is_refused_and_cannot_be_left_out_is_a_failure(server: ScriptedApi) -> None:
    server.script = lambda body, number: refuse("top_p")
    with pytest.raises(LLMFailed, match="'top_p' is not supported"):
        ask(client(server), top_p=0.5)


def test_a_field_that_is_null_is_not_sent(server: ScriptedApi) -> None:
    options = LLMOptions(temperature=None, extra={"max_completion_tokens": 30, "top_p": None})
    llm = options.make_client("the test", model="big", config_dir=Path(), environ=server.environ)
    assert ask(llm) == "4"
    assert server.bodies == [{"model": "big", "messages": QUESTION, "max_completion_tokens": 30}]


def test_the_wait_that_the_api_asks_for_is_kept(server: ScriptedApi) -> None:
    server.script = lambda body, number: "4" if number else Reply(429, {}, {"retry-after": "3600"})
    with pytest.raises(LLMFailed, match=r"no answer within 3 s"):
        ask(client(server, timeout_s=3.0))
    assert len(server.bodies) == 1


@pytest.mark.parametrize("asked", ["0.05", "date"])
def test_the_wait_that_the_api_asks_for_is_no_retry(server: ScriptedApi, asked: str) -> None:
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
    busy = Reply(429, {}, {"retry-after": at if asked == "date" else asked})
    server.script = lambda body, number: "4" if number > 8 or (asked == "date" and number) else busy
    assert ask(client(server, max_retries=0)) == "4"


def test_a_wait_beyond_the_time_of_the_question_is_a_retry(server: ScriptedApi) -> None:
    server.script = lambda body, number: Reply(429, {}, {"retry-after": "86400"})
    with pytest.raises(LLMFailed, match="answered 429"):
        ask(client(server, max_retries=0))
    assert len(server.bodies) == 1


@pytest.mark.parametrize("packed", [True, False])
def test_an_answer_without_end_is_not_read_to_its_end(server: ScriptedApi, packed: bool) -> None:
    body = gzip.compress(b" " * (160 << 20)) if packed else b" " * (160 << 20)
    server.script = lambda _, number: Reply(200, body, {"content-encoding": "gzip"} if packed else {})
    tracemalloc.start()
    with pytest.raises(LLMFailed, match=r"could not be reached: DecodingError: the answer is larger than 32 MiB"):
        ask(client(server, max_retries=0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80 << 20


@pytest.mark.parametrize("packing", ["br", "zstd", "gzip, gzip"])
def test_an_answer_that_is_packed_otherwise_is_not_unpacked(server: ScriptedApi, packing: str) -> None:
    server.script = lambda _, number: Reply(200, b"{}", {"content-encoding": packing})
    with pytest.raises(LLMFailed, match=f"packed by '{packing}'"):
        ask(client(server, max_retries=0))


def test_a_packed_answer_is_read(server: ScriptedApi) -> None:
    body = gzip.compress(json.dumps(make_completion("4").body).encode())
    server.script = lambda _, number: Reply(200, body, {"content-encoding": "gzip"})
    assert ask(client(server)) == "4"


def test_half_an_emoji_of_an_answer_becomes_a_character(server: ScriptedApi) -> None:
    server.script = lambda _, number: "Score: 7 \ud83d"
    assert ask(client(server)) == "Score: 7 \ufffd"


def test_half_an_emoji_of_a_question_is_sent_as_a_character(server: ScriptedApi) -> None:
    asyncio.run(client(server).ask([{"role": "user", "content": "\ud83d?"}], max_tokens=9))
    assert server.prompts() == ["\ufffd?"]


def test_a_failure_quotes_no_long_text(server: ScriptedApi) -> None:
    secret = "the whole prompt " * 1000
    server.script = lambda _, number: Reply(400, {"error": {"message": f"filtered: {secret}"}})
    with pytest.raises(LLMFailed) as caught:
        ask(client(server))
    assert len(str(caught.value)) < 700
    server.script = lambda _, number: Reply(200, b"not JSON \xff")
    with pytest.raises(LLMFailed) as caught:
        asyncio.run(client(server).ask([{"role": "user", "content": secret, "more": {1}}], max_tokens=9))
    assert len(str(caught.value)) < 700


def test_the_cause_of_a_failed_handshake_is_named(server: ScriptedApi) -> None:
    endpoint = Endpoint(base_url=server.url.replace("http:", "https:"), keys=("key",), keys_from="SOME_KEY")
    with pytest.raises(LLMFailed, match=r"could not be reached: ConnectError: \[SSL: WRONG_VERSION_NUMBER\]"):
        asyncio.run(LLMClient(endpoint, "big", Patience(max_retries=0)).ask(QUESTION, max_tokens=9))


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
        "import sys; from astuner.shared.clients.llm import LLMClient; from astuner.shared.clients.llm_endpoint import Endpoint; "
        "LLMClient(Endpoint(base_url='u', keys=('k',), keys_from='K'), 'm'); "
        "sys.exit(any(name in sys.modules for name in ('openai', 'httpx', 'httpx2')))"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
