"""Tools and content of Anthropic's API: what the agent runs is offered, what Anthropic's servers run is left out and reported."""

from __future__ import annotations

from typing import Any

import httpx
import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner_wire_apis.anthropic_request import messages_request
from astuner_wire_apis.anthropic_tools import DESCRIBED, HOSTED

ASK: dict[str, Any] = {"max_tokens": 100, "messages": [{"role": "user", "content": "hello"}]}
ADD = {"name": "add", "input_schema": {"type": "object", "properties": {}}}
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8, "allowed_domains": None}
SERVED_BY_ANTHROPIC = [
    *("web_search_20250305", "web_search_20260209", "web_fetch_20250910", "code_execution_20250522", "code_execution_20260120"),
    *("tool_search_tool_regex_20251119", "tool_search_tool_bm25", "advisor_20260301", "mcp_toolset"),
]
EDITS = {"command": "str_replace", "path": "/a.py", "old_str": "1", "new_str": "2"}


def names(body: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in messages_request({**ASK, **body}).tools]


def content_of(*blocks: Any) -> Any:
    return messages_request({**ASK, "messages": [{"role": "user", "content": list(blocks)}]}).messages[0]["content"]


@pytest.mark.parametrize("kind", DESCRIBED)
def test_tools_that_the_agent_runs_are_offered_with_their_schema(kind: str) -> None:
    sent = {"type": kind, "name": "mine", "cache_control": {"type": "ephemeral"}}
    (tool,) = messages_request({**ASK, "tools": [sent]}).tools
    assert tool == {"type": "function", "function": {**DESCRIBED[kind], "name": "mine"}}
    jsonschema.Draft202012Validator.check_schema(DESCRIBED[kind]["parameters"])


@pytest.mark.parametrize(
    ("kind", "call", "fits"),
    [
        ("bash_20250124", {"command": "ls"}, True),
        ("bash_20250124", {"restart": True}, True),
        ("text_editor_20250728", EDITS, True),
        ("text_editor_20250728", {"command": "view", "path": "/a.py", "view_range": [1, -1]}, True),
        ("text_editor_20250728", {"command": "insert", "path": "/a.py", "insert_line": 0, "insert_text": "x"}, True),
        ("text_editor_20250728", {"command": "undo_edit", "path": "/a.py"}, False),
        ("text_editor_20250124", {"command": "undo_edit", "path": "/a.py"}, True),
        ("text_editor_20250728", {"command": "view"}, False),
        ("memory_20250818", {"command": "rename", "old_path": "/memories/a", "new_path": "/memories/b"}, True),
        ("memory_20250818", {"command": "delete", "path": "/memories/a"}, True),
        ("memory_20250818", {"command": "list"}, False),
    ],
)
def test_the_documented_calls_fit_the_schema(kind: str, call: dict[str, Any], fits: bool) -> None:
    assert jsonschema.Draft202012Validator(DESCRIBED[kind]["parameters"]).is_valid(call) is fits


@pytest.mark.parametrize("kind", SERVED_BY_ANTHROPIC)
def test_tools_that_anthropic_runs_are_left_out(kind: str) -> None:
    request = messages_request({**ASK, "tools": [{"type": kind, "name": "hosted"}, ADD]})
    assert [tool["function"]["name"] for tool in request.tools] == ["add"]
    assert request.hosted_tools == (kind,)


@pytest.mark.parametrize("name", ["container", "context_management"])
def test_fields_without_effect_are_reported(name: str) -> None:
    assert messages_request({**ASK, name: {"edits": []}}).ignored == (name,)


def test_servers_of_tools_are_left_out() -> None:
    assert messages_request({**ASK, "mcp_servers": [{"name": "x"}]}).hosted_tools == ("mcp_servers",)


@pytest.mark.parametrize("kind", [*DESCRIBED, "custom"])
def test_no_tool_of_the_agent_is_taken_for_a_hosted_one(kind: str) -> None:
    assert not HOSTED.fullmatch(kind)


@given(st.lists(st.sampled_from(["own", *SERVED_BY_ANTHROPIC, *DESCRIBED]), max_size=8))
def test_every_own_tool_stays_in_its_place(kinds: list[str]) -> None:
    tools = [{**ADD, "name": f"t{number}", **({} if kind == "own" else {"type": kind})} for number, kind in enumerate(kinds)]
    expected = [tool["name"] for tool, kind in zip(tools, kinds, strict=True) if kind == "own" or kind in DESCRIBED]
    assert names({"tools": tools}) == expected


@pytest.mark.parametrize(
    ("choice", "tools", "expected"),
    [
        ({"type": "tool", "name": "web_search"}, [SEARCH], None),
        ({"type": "tool", "name": "web_search"}, [SEARCH, ADD], None),
        ({"type": "any"}, [SEARCH], None),
        ({"type": "any"}, [SEARCH, ADD], ["add"]),
        ({"type": "tool", "name": "add"}, [SEARCH, ADD], ["add"]),
    ],
)
def test_a_choice_of_a_hosted_tool_is_left_to_the_model(choice: Any, tools: Any, expected: list[str] | None) -> None:
    constraint = messages_request({**ASK, "tools": tools, "tool_choice": choice}).constraint
    assert (constraint and [tool["function"]["name"] for tool in constraint["tools"]]) == expected


@pytest.mark.asyncio
async def test_a_hosted_tool_is_reported_once(serving: Any) -> None:
    async with serving("yes") as stage:
        api = stage.recorder.tuner.as_oai_baseurl_apikey("scout")
        async with httpx.AsyncClient(base_url=api.base_url, headers={"x-api-key": api.api_key}) as client:
            answers = [await client.post("/messages", json={**ASK, "tools": [SEARCH, ADD]}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert [notice for notice in stage.recorder.notices if "web_search_20250305" in notice] == [
        "scout: tools that the servers of its API would run are not offered to the model: web_search_20250305."
    ]


def test_text_in_other_blocks_is_read() -> None:
    document = {"type": "document", "title": "Rules", "context": "of chess", "source": {"type": "text", "data": "No cheating."}}
    parts = {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "a"}]}}
    found = {"type": "search_result", "title": "T", "source": "https://x", "content": [{"type": "text", "text": "body"}]}
    assert content_of(document) == "Rules\nof chess\nNo cheating."
    assert content_of(parts) == "a"
    assert content_of(found) == "T\nhttps://x\nbody"


def test_a_tool_result_names_the_tools_that_were_found() -> None:
    result = {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "tool_reference", "tool_name": "add"}]}
    call = {"type": "tool_use", "id": "1", "name": "ToolSearch", "input": {}}
    body = {"messages": [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]}
    assert messages_request({**ASK, **body}).messages[-1]["content"] == "add"
