"""Messages that were read before are read as if they came for the first time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner.model.gateway.recording.messages import KEPT_CONVERSATIONS, MessageReader, normalise
from astuner.model.rendering.errors import ApiError

ARGUMENTS = st.sampled_from([{"a": 1}, {"a": True}, {"a": 1.0}, '{"a": 1}', '{"a": true}', None])
IDS = st.sampled_from(["x", 1, True, None])
CALLS = st.lists(
    st.builds(lambda id_, arguments: {"id": id_, "function": {"name": "f", "arguments": arguments}}, IDS, ARGUMENTS), max_size=2
)
CONTENTS = st.sampled_from(["a", "b", [{"type": "text", "text": "a"}], 7])
MESSAGES = st.lists(
    st.one_of(
        st.builds(
            lambda text: {"role": "user", "content": text}, st.sampled_from(["a", "b", [{"type": "text", "text": "a"}], 7])
        ),
        st.builds(lambda calls: {"role": "assistant", "content": "c", "tool_calls": calls}, CALLS),
        st.builds(lambda text: {"role": "tool", "tool_call_id": "x", "content": text}, st.sampled_from(["r", None])),
    ),
    max_size=4,
)
GROWING = st.lists(st.tuples(st.sampled_from(["more", "other", "again"]), MESSAGES), max_size=5)


def outcome(read: Any, messages: Any) -> Any:
    try:
        return read(json.loads(json.dumps(messages)))
    except ApiError as error:
        return str(error)


@given(turns=GROWING)
def test_a_request_reads_the_same_whatever_was_said_before(turns: list[tuple[str, list[dict[str, Any]]]]) -> None:
    said, messages = MessageReader(), [{"role": "user", "content": "a"}]

    for what, more in turns:
        messages = {"more": [*messages, *more], "other": [*messages[:1], *more], "again": messages}[what]
        # `==` takes 1 for True.
        assert repr(outcome(normalise, messages)) == repr(outcome(said, messages))


@pytest.mark.parametrize(("first", "second"), [({"a": 1}, {"a": True}), ({"a": [1.0]}, {"a": [1]}), ({"a": 0}, {"a": False})])
def test_equal_arguments_of_other_types_are_other_texts(first: Any, second: Any) -> None:
    said = MessageReader()

    def request(arguments: Any) -> list[Any]:
        calls = [{"id": "x", "function": {"name": "f", "arguments": arguments}}]
        return [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "tool_calls": calls}]

    said(request(first))

    assert json.dumps(second) == said(request(second))[1]["tool_calls"][0]["function"]["arguments"]


def test_equal_ids_of_other_types_are_other_ids() -> None:
    said = MessageReader()

    def request(id_: Any) -> list[Any]:
        calls = [{"id": id_, "function": {"name": "f", "arguments": "{}"}}]
        return [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "tool_calls": calls}]

    said(request(1))

    assert said(request(True))[1]["tool_calls"][0]["id"] == "True"


def test_what_is_said_again_is_the_same_object() -> None:
    said, first = MessageReader(), [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    before = said(first)

    assert all(old is new for old, new in zip(before, said([*map(dict, first), {"role": "user", "content": "v"}]), strict=False))


@pytest.mark.parametrize("messages", [None, [], "text", [1], [{"role": "user"}], [{"content": "x"}]])
def test_what_cannot_be_served_is_refused_with_the_same_words(messages: Any) -> None:
    assert outcome(normalise, messages) == outcome(MessageReader(), messages)


def test_the_oldest_conversations_are_forgotten() -> None:
    said = MessageReader()
    first = said([{"role": "user", "content": "0"}])
    for number in range(KEPT_CONVERSATIONS):
        said([{"role": "user", "content": str(number + 1)}])

    assert first[0] is not said([{"role": "user", "content": "0"}])[0]
