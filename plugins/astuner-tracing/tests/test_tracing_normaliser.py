"""One conversation, however a tracer wrote it down."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner_tracing.attributes import get_at, get_tree
from astuner_tracing.messages import ChatMessage, parse_messages
from astuner_tracing.records import Span
from astuner_tracing.reprs import parse_repr
from astuner_tracing.turns import find_turns

QUERY, ANSWER, SYSTEM = "What is 6*7?", "It is 42.", "Be brief."


def of(attributes: Mapping[str, Any], events: tuple[Mapping[str, Any], ...] = ()) -> tuple[str, str | None, list[str]]:
    span = Span(source="s", trace_id="1" * 32, span_id="2" * 16, name="x", attributes=attributes, events=events)
    (turn,) = find_turns([span])
    return turn.query, turn.answer, [message.text for message in turn.before]


PARTS = [
    {"role": "system", "parts": [{"type": "text", "content": SYSTEM}]},
    {"role": "user", "parts": [{"type": "text", "content": QUERY}]},
]
PARTS_OUT = [{"role": "assistant", "parts": [{"type": "reasoning", "content": "hm"}, {"type": "text", "content": ANSWER}]}]
CHAT = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": [{"type": "text", "text": QUERY}]}]
CHAT_OUT = [{"role": "assistant", "content": ANSWER}]


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.input.messages": PARTS, "gen_ai.output.messages": PARTS_OUT},
        {"gen_ai.input.messages": json.dumps(PARTS), "gen_ai.output.messages": json.dumps(PARTS_OUT[0])},
        {"gen_ai": {"input": {"messages": json.dumps(CHAT)}, "output.messages": CHAT_OUT[0]}},
        {"gen_ai.input.messages": json.dumps(PARTS[1]), "gen_ai.system_instructions": json.dumps(PARTS[0]["parts"])}
        | {"gen_ai.output.messages": PARTS_OUT},
        {
            "llm.input_messages.0.message.role": "system",
            "llm.input_messages.0.message.content": SYSTEM,
            "llm.input_messages.1.message.role": "user",
            "llm.input_messages.1.message.contents.0.message_content.type": "text",
            "llm.input_messages.1.message.contents.0.message_content.text": QUERY,
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": ANSWER,
            "input.value": '{"messages": "raw"}',
        },
        {
            "llm": {
                "input_messages": [
                    {"message": {"role": "system", "content": SYSTEM}},
                    {"message.role": "user", "message.content": QUERY},
                ],
                "output_messages": [{"message": {"role": "assistant", "content": ANSWER}}],
            }
        },
        {"llm.input_messages": CHAT, "llm.output_messages": CHAT_OUT},
        {
            "gen_ai.prompt.0.role": "system",
            "gen_ai.prompt.0.content": SYSTEM,
            "gen_ai.prompt.1.role": "user",
            "gen_ai.prompt.1.content": QUERY,
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.content": ANSWER,
        },
        {"input.value": json.dumps({"messages": CHAT}), "output.value": json.dumps({"messages": CHAT_OUT})},
        {"agentscope.function.input": json.dumps({"args": [CHAT], "kwargs": {}}), "agentscope.function.output": ANSWER},
    ],
)
def test_every_way_to_write_it_says_the_same(attributes: Mapping[str, Any]):
    assert of(attributes) == (QUERY, ANSWER, [SYSTEM])


def test_plain_text_is_the_question_and_the_answer():
    assert of({"openinference.span.kind": "CHAIN", "input.value": QUERY, "output.value": ANSWER}) == (QUERY, ANSWER, [])


def test_messages_in_events_are_read():
    events = (
        {"name": "gen_ai.system.message", "attributes": {"content": SYSTEM}},
        {"name": "gen_ai.user.message", "attributes": {"content": QUERY}},
        {"name": "gen_ai.choice", "attributes": {"index": 0, "message": json.dumps({"role": "assistant", "content": ANSWER})}},
    )
    assert of({"gen_ai.operation.name": "chat"}, events) == (QUERY, ANSWER, [SYSTEM])


def test_all_messages_in_one_event_are_read():
    told = {"gen_ai.input.messages": json.dumps(PARTS), "gen_ai.output.messages": json.dumps(PARTS_OUT)}
    events = ({"name": "gen_ai.client.inference.operation.details", "attributes": told},)
    assert of({"gen_ai.operation.name": "chat"}, events) == (QUERY, ANSWER, [SYSTEM])


def test_calls_and_results_of_tools_become_openai_messages():
    call = {"type": "tool_call", "id": "c1", "name": "calculator", "arguments": {"expression": "6*7"}}
    # AgentScope 2 keeps the result inside of the assistant's message, its text block written as `repr`.
    result = {"type": "tool_call_response", "id": "c1", "response": "[\"TextBlock(type='text', text='42', id='a')\"]"}
    said = parse_messages(
        [{"role": "assistant", "parts": [{"type": "text", "content": "Let me see."}, call, result]}], "assistant"
    )
    assert [message.as_openai() for message in said] == [
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "calculator", "arguments": '{"expression": "6*7"}'}}
            ],
        },
        {"role": "tool", "content": "42", "tool_call_id": "c1"},
    ]


def test_a_tools_words_that_look_like_python_stay_as_they_are():
    part = {"type": "tool_result", "id": "c1", "output": "max(1, 2)"}
    assert parse_messages([{"role": "user", "content": [part]}], "user") == [
        ChatMessage(role="tool", text="max(1, 2)", tool_call_id="c1")
    ]


def test_an_image_is_not_passed_over():
    (message,) = parse_messages(
        [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, {"type": "image_url"}]}], "user"
    )
    assert (message.text, message.not_text) == ("What is this?", True)


NAMES = st.text("abc", min_size=1, max_size=2)
TREES = st.recursive(
    st.text("xyz", max_size=3), lambda inner: st.dictionaries(NAMES, inner, min_size=1, max_size=3), max_leaves=8
).filter(lambda tree: isinstance(tree, dict))


def flat(tree: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(tree, dict):
        return {path: tree}
    return {key: value for name, inner in tree.items() for key, value in flat(inner, f"{path}.{name}".strip(".")).items()}


@given(TREES, st.data())
def test_keys_may_be_dotted_at_any_level(tree: dict[str, Any], data: st.DataObject):
    leaves = flat(tree)
    path = data.draw(st.sampled_from(sorted(leaves)))
    halfway = {name: flat(inner) if isinstance(inner, dict) else inner for name, inner in tree.items()}
    assert get_at(tree, path) == get_at(leaves, path) == get_at(halfway, path) == leaves[path]
    top = path.partition(".")[0]
    assert get_tree(tree, top) == get_tree(leaves, top) == get_tree(halfway, top) == tree[top]


@given(st.lists(st.text(max_size=8), min_size=1, max_size=12))
def test_counted_keys_are_a_list_in_their_order(texts: list[str]):
    assert get_tree({f"llm.m.{number}.t": text for number, text in enumerate(texts)}, "llm.m") == [{"t": text} for text in texts]


@given(st.text(), st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": st.text()}), max_size=3))
def test_a_repr_comes_back_as_it_was(text: str, blocks: list[dict[str, str]]):
    assert parse_repr(f"Msg(name={text!r}, content={blocks!r}, score=-1.5)") == {"name": text, "content": blocks, "score": -1.5}


@given(st.text())
def test_objects_without_a_repr_are_none(text: str):
    written = f"Msg(a=<Status.OK: 'success'>, content={text!r}, b=<obj at 0x7f <inner>>, c=[<x>])"
    assert parse_repr(written) == {"a": None, "content": text, "b": None, "c": [None]}


def test_a_repr_runs_nothing(tmp_path: Path):
    mark = tmp_path / "ran"
    assert parse_repr(f"Msg(content=__import__('pathlib').Path({str(mark)!r}).touch())") == {"content": {}}
    assert not mark.exists()


@pytest.mark.parametrize(
    "text", ["Msg(", "x" * (5 << 20), "(" * 5000 + ")" * 5000, "a\0b"], ids=["unfinished", "too long", "too deep", "null byte"]
)
def test_what_is_no_repr_is_refused(text: str):
    with pytest.raises(ValueError, match=r"repr|expression"):
        parse_repr(text)
