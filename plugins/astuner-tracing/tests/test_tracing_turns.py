"""Which spans of a trace are one turn, and what belongs to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from astuner_tracing.otlp import parse_span
from astuner_tracing.turns import Turn, find_turns

Make = Callable[..., dict[str, Any]]


def chat(*texts: str) -> str:
    roles = {"S": "system", "U": "user", "A": "assistant", "T": "tool"}
    return json.dumps([{"role": roles[text[0]], "content": text[2:]} for text in texts])


def turns(*spans: dict[str, Any], agents: tuple[str, ...] = ()) -> list[Turn]:
    return find_turns([parse_span(span, "s") for span in spans], agents)


def model(span: Make, number: int, asked: str, said: str, **more: Any) -> dict[str, Any]:
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": asked, "gen_ai.output.messages": said}
    return span(1, number, name="chat qwen", at=number, attributes=attributes | {"gen_ai.request.model": "qwen"}, **more)


def test_earlier_turns_and_the_system_prompt_come_from_the_agents_first_call(span: Make, asked: Make):
    shown = chat("S Be brief.", "U Hi.", "A Hello.", "U What is 6*7?")
    (turn,) = turns(asked(1, "What is 6*7?", "42"), model(span, 2, shown, chat("A 42"), parent=1))
    assert [message.text for message in turn.before] == ["Be brief.", "Hi.", "Hello."]
    assert (turn.query, turn.answer, turn.model) == ("What is 6*7?", "42", "qwen")


def test_an_agent_below_an_agent_is_no_turn(span: Make, asked: Make):
    inner = asked(1, "Search for it.", "Found.") | {"spanId": f"{2:016x}", "parentSpanId": f"{1:016x}"}
    (turn,) = turns(asked(1, "What is it?", "This."), inner)
    assert (turn.query, turn.members) == ("What is it?", (f"{1:016x}", f"{2:016x}"))


def test_agents_beside_each_other_are_turns_each(span: Make, asked: Make):
    root = span(1, 9, name="session")
    spans = [asked(n, f"Question {n}?") | {"traceId": f"{1:032x}", "parentSpanId": f"{9:016x}"} for n in (1, 2)]
    assert [turn.query for turn in turns(root, *spans)] == ["Question 1?", "Question 2?"]


def test_only_turns_of_the_agents_that_are_named(asked: Make):
    other = {"key": "gen_ai.agent.name", "value": {"stringValue": "planner"}}
    planner = asked(1, "Plan.")
    planner["attributes"] = [pair for pair in planner["attributes"] if pair["key"] != "gen_ai.agent.name"] + [other]
    worker = asked(2, "Work.") | {"traceId": f"{1:032x}", "parentSpanId": f"{1:016x}"}
    assert [turn.query for turn in turns(planner, worker, agents=("friday",)) if turn.selected] == ["Work."]
    assert [turn.selected for turn in turns(planner, worker, agents=("nobody",))] == [False]


def test_calls_with_one_opening_are_one_turn_without_an_agent(span: Make):
    call = json.dumps(
        [{"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": {"name": "calc", "arguments": "{}"}}]}]
    )
    root = span(1, 9, name="GET /ask")
    first = model(span, 2, chat("S Be brief.", "U 6*7?"), call, parent=9)
    second = model(span, 3, chat("S Be brief.", "U 6*7?", "A ", "T 42"), chat("A 42."), parent=9)
    (turn,) = turns(root, first, second)
    assert (turn.query, turn.answer, turn.tools) == ("6*7?", "42.", ("calc",))
    assert f"{9:016x}" in turn.members


def test_a_last_call_of_a_tool_is_no_answer(span: Make):
    call = json.dumps([{"role": "assistant", "content": "Wait.", "tool_calls": [{"id": "c", "function": {"name": "calc"}}]}])
    (turn,) = turns(model(span, 2, chat("U 6*7?"), call))
    assert turn.answer is None


def test_an_agent_that_failed_has_no_answer_of_its_calls(span: Make, asked: Make):
    failed = asked(1, "6*7?", None, status={"code": 2})
    assert turns(failed, model(span, 2, chat("U 6*7?"), chat("A 42"), parent=1))[0].answer is None
    fine = asked(1, "6*7?", None)
    assert turns(fine, model(span, 2, chat("U 6*7?"), chat("A 42"), parent=1))[0].answer == "42"


def test_an_agent_that_says_nothing_of_its_input_is_read_off_its_calls(span: Make):
    agent = span(1, 1, attributes={"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "friday"})
    (turn,) = turns(agent, model(span, 2, chat("S Be brief.", "U 6*7?"), chat("A 42"), parent=1))
    assert (turn.query, turn.answer, turn.agent, turn.span_id) == ("6*7?", "42", "friday", f"{1:016x}")


def test_spans_in_a_circle_end(span: Make, asked: Make):
    one = asked(1, "A?") | {"parentSpanId": f"{2:016x}"}
    two = asked(1, "B?") | {"spanId": f"{2:016x}", "parentSpanId": f"{1:016x}"}
    assert {turn.query for turn in turns(one, two)} == {"A?", "B?"}


def test_a_trace_in_which_nothing_was_asked_has_no_turn(span: Make):
    assert turns(span(1, 1, name="GET /health"), span(1, 2, name="SELECT", parent=1)) == []
