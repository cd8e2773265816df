from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
from attrs import evolve

from astuner.model.gateway.wire_apis import (
    CHAT_COMPLETIONS,
    ChatRequest,
    ChatWriter,
    GenerationRoute,
    ModelRoute,
    WireApi,
    chat_request,
)
from astuner_devkit.contracts import Contract, WireApiContract, list_rules, run_contract

USER = [{"role": "user", "content": "hello"}]


class TestChatCompletions(WireApiContract):
    component = CHAT_COMPLETIONS
    body: ClassVar = {"messages": USER}
    streamed_body: ClassVar = {"messages": USER, "stream": True}


GOOD = evolve(CHAT_COMPLETIONS, routes=(GenerationRoute("/good/chat", chat_request),))


def with_route(read: Any, path: str = "/bad/chat") -> WireApi:
    return evolve(GOOD, routes=(GenerationRoute(path, read),))


def read_trustfully(body: Mapping[str, Any], read_messages: Any) -> ChatRequest:
    return chat_request({"messages": [{"role": "user", "content": body["messages"][0]["content"].strip()}]}, read_messages)


def forget_messages(body: Mapping[str, Any], read_messages: Any) -> ChatRequest:
    return evolve(chat_request(body, read_messages), messages=())


def never_stream(body: Mapping[str, Any], read_messages: Any) -> ChatRequest:
    return chat_request({**body, "stream": False}, read_messages)


class Mute(ChatWriter):
    def write_whole(self, answers: Any) -> bytes:
        return b"{}"


class Vague(ChatWriter):
    def write_failure(self, error: Any) -> bytes:
        return b"it failed\n"


class Failing(ChatWriter):
    def write_closing(self, answers: Any) -> bytes:
        raise KeyError("usage")


class Wordy(ChatWriter):
    def write_whole(self, answers: Any) -> bytes:
        return bytes(answers[0].reply["content"].strip().encode())


class WordyAtLast(ChatWriter):
    def write_done(self, choice: int, answer: Any) -> bytes:
        return bytes(answer.reply["content"].strip().encode())


def writing(writer: type[ChatWriter]) -> WireApi:
    return evolve(GOOD, make_writer=lambda request, id_, model: writer(request=request, id=id_, model=model))


BAD = [
    ("test_it_is_a_wire_api", ChatWriter, "let it be an astuner.model.gateway.wire_apis.WireApi"),
    ("test_it_is_a_wire_api", evolve(GOOD, routes=(ModelRoute("/models", lambda name: {}),)), "has no GenerationRoute"),
    ("test_its_paths_are_its_own", with_route(chat_request, "bad/chat"), "'bad/chat' must begin with '/'"),
    ("test_its_paths_are_its_own", with_route(chat_request, "/{user}/chat"), "may have '{model}' in it"),
    ("test_its_paths_are_its_own", evolve(GOOD, routes=GOOD.routes * 2), "two routes have one path"),
    ("test_its_paths_are_its_own", with_route(chat_request, "/v1/chat/completions"), "is a path of core's own API"),
    ("test_a_refusal_says_why", evolve(GOOD, format_error=lambda error: {"error": error.status}), "leaves the message out"),
    ("test_a_refusal_says_why", evolve(GOOD, format_error=lambda error: error), "return a JSON object"),
    ("test_what_makes_no_sense_is_refused", with_route(read_trustfully), "raised KeyError: 'messages'"),
    ("test_what_makes_no_sense_is_refused", with_route(lambda body, read: dict(body)), "not a ChatRequest"),
    ("test_a_body_is_read", with_route(forget_messages), "no message was read"),
    ("test_a_body_is_read", with_route(never_stream), "`stream` is False"),
    ("test_an_answer_is_written", writing(Mute), "the answer 'forty-two' is missing"),
    ("test_an_answer_is_written", writing(Vague), "write_failure leaves the message out"),
    ("test_an_answer_is_written", writing(Failing), "raised KeyError: 'usage'"),
    ("test_an_answer_without_text_is_written", writing(Wordy), "raised AttributeError: 'NoneType'"),
    ("test_an_answer_without_text_is_written", writing(WordyAtLast), "raised AttributeError: 'NoneType'"),
    ("test_a_gateway_records_what_it_answers", with_route(never_stream), "a stream came as application/json"),
    ("test_a_gateway_records_what_it_answers", writing(Mute), "the answer 'forty-two' is missing"),
]


def contract_of(api: Any) -> type[Contract]:
    bodies = {"body": {"messages": USER}, "streamed_body": {"messages": USER, "stream": True}}
    return type("Bad", (WireApiContract,), {"component": api, **bodies})


@pytest.mark.parametrize(("rule", "api", "words"), BAD)
def test_a_bad_one_is_found(rule: str, api: Any, words: str) -> None:
    (outcome,) = [outcome for outcome in run_contract(contract_of(api)) if outcome.rule == rule]
    assert outcome.status == "failed"
    assert words in (outcome.message or "")


def test_every_rule_is_broken_by_one() -> None:
    # The last one is the gateway's own promise, which holds for any API.
    mine = {rule for rule in list_rules(WireApiContract) if rule in vars(WireApiContract)} - {"test_a_key_of_nobody_is_refused"}
    assert mine == {rule for rule, _, _ in BAD}


def test_without_bodies_the_rules_that_need_them_are_skipped() -> None:
    outcomes = run_contract(type("Bare", (WireApiContract,), {"component": GOOD}))
    assert {outcome.status for outcome in outcomes} == {"passed", "skipped"}
