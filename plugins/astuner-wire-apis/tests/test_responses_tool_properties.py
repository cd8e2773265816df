"""Tools and items of the Responses API, whatever they are: calls read back as sampled, and a bad body is refused."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from astuner.model.gateway.recording.messages import encode_meaning
from astuner.model.rendering.errors import ApiError
from astuner_wire_apis.responses_calls import read_call, write_call
from astuner_wire_apis.responses_items import READERS
from astuner_wire_apis.responses_request import responses_request
from astuner_wire_apis.responses_tools import NAMELESS, Toolbox

SEARCH = {"type": "tool_search", "execution": "client"}


def box(tools: list[Any]) -> Toolbox:
    made = Toolbox()
    made.offer(tools, "tools")
    return made


NAMES = st.sampled_from(["a", "b", "a__b", "a__b_2", "shell", "shell_2", "apply_patch", "", "é"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(
    ["input", "command", "commands", "working_directory", "timeout_ms", "env", "user", "type", "path", "diff", "query", "x"]
)
VALUES = st.sampled_from(["create_file", "delete_file", ["ls"], 5, 5.0, True, None, {}, {"A": "b"}, {"A": 1}, []]) | JSON
NAMED = st.builds(lambda kind, name: {"type": kind, "name": name}, st.sampled_from(["function", "custom"]), NAMES.filter(bool))
OFFERED = st.lists(
    NAMED
    | st.sampled_from([SEARCH, {"type": "local_shell"}, {"type": "shell"}, {"type": "apply_patch"}, {"type": "web_search"}])
    | st.builds(
        lambda name, tools: {"type": "namespace", "name": name, "tools": tools}, NAMES.filter(bool), st.lists(NAMED, max_size=3)
    ),
    max_size=6,
)


@given(tools=OFFERED, arguments=st.dictionaries(KEYS, VALUES, max_size=4) | JSON, data=st.data())
def test_every_call_reads_back_as_it_was_sampled(tools: list[Any], arguments: Any, data: Any) -> None:
    known = box(tools)
    names = [tool["function"]["name"] for tool in known.functions]
    name = data.draw(st.sampled_from([*names, "unknown"]))
    sampled = {"id": "call12345", "function": {"name": name, "arguments": json.dumps(arguments)}}
    item = json.loads(json.dumps(write_call(known.forms.get(name), sampled)))
    message = read_call(item, "input[0]", known)
    assert message["tool_calls"][0]["id"] == sampled["id"]
    assert encode_meaning(message) == encode_meaning({"role": "assistant", "tool_calls": [sampled]})


@given(tools=OFFERED)
def test_no_two_tools_share_a_name(tools: list[Any]) -> None:
    known = box(tools)
    listed = [tool["function"]["name"] for tool in known.functions]
    flat = [inner | {"in": tool["name"]} for tool in tools if tool["type"] == "namespace" for inner in tool["tools"]]
    flat += [tool for tool in tools if tool["type"] not in ("namespace", "web_search")]
    assert len(listed) == len(flat)
    assert len(set(listed)) == len({json.dumps([one["type"], one.get("name"), one.get("in")]) for one in flat})


KINDS = st.sampled_from(["function", "custom", "namespace", *NAMELESS, *READERS, "web_search", "compaction"])
FIELDS = st.sampled_from(
    [
        *("name", "namespace", "tools", "format", "description", "parameters", "call_id", "id", "input", "arguments", "action"),
        *("operation", "output", "status", "content", "role", "execution", "summary", "encrypted_content"),
    ]
)
HOSTILE = st.builds(
    lambda kind, fields: {"type": kind, **fields},
    KINDS | JSON,
    st.dictionaries(FIELDS, JSON | st.lists(st.builds(lambda kind: {"type": kind, "name": "x"}, KINDS), max_size=2), max_size=5),
)


@given(tools=st.lists(HOSTILE | JSON, max_size=4), items=st.lists(HOSTILE | JSON, max_size=4), choice=HOSTILE | st.none())
def test_hostile_bodies_are_served_or_refused(tools: list[Any], items: list[Any], choice: Any) -> None:
    body = {"input": [{"role": "user", "content": "hello"}, *items], "tools": tools, "tool_choice": choice}
    refused: list[ApiError] = []
    try:
        responses_request(body)
    except ApiError as error:
        refused.append(error)
    assert all(error.status == 400 and error.param for error in refused)
