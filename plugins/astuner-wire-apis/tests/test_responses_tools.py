"""Tools of the Responses API that are no functions: what the model sees of them, and what the client gets and sends back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import openai
import pytest
from openapi_document import read_document
from pydantic import TypeAdapter

from astuner.contract.schema import Capabilities
from astuner.contract.token_streams import stream_ids
from astuner.model.rendering.errors import ApiError
from astuner_wire_apis.responses_calls import read_call, write_call
from astuner_wire_apis.responses_items import read_items
from astuner_wire_apis.responses_request import responses_request
from astuner_wire_apis.responses_tools import HOSTED, Toolbox

OBJECT = {"type": "object", "properties": {}}
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
ADD = {"type": "function", "name": "add", "parameters": OBJECT}
PATCH = {"type": "custom", "name": "patch", "description": "Patches.", "format": GRAMMAR}
CRM = {
    "type": "namespace",
    "name": "crm",
    "description": "Customers.",
    "tools": [{**ADD, "name": "find"}, {"type": "custom", "name": "note"}],
}
SEARCH = {"type": "tool_search", "execution": "client", "description": "Finds tools.", "parameters": OBJECT}
TOOLS = [ADD, PATCH, CRM, SEARCH, {"type": "local_shell"}, {"type": "shell"}, {"type": "apply_patch"}]


def format_call(name: str, arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def call(name: str, arguments: str) -> dict[str, Any]:
    return {"id": "call12345", "type": "function", "function": {"name": name, "arguments": arguments}}


def box(tools: list[Any]) -> Toolbox:
    made = Toolbox()
    made.offer(tools, "tools")
    return made


CALLS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "function": ("add", {"a": 1}, {"type": "function_call", "name": "add", "arguments": '{"a": 1}'}),
    "function in a namespace": (
        "crm__find",
        {"a": 1},
        {"type": "function_call", "name": "find", "namespace": "crm", "arguments": '{"a": 1}'},
    ),
    "custom": ("patch", {"input": "a\n"}, {"type": "custom_tool_call", "name": "patch", "input": "a\n"}),
    "custom in a namespace": (
        "crm__note",
        {"input": "é"},
        {"type": "custom_tool_call", "name": "note", "namespace": "crm", "input": "é"},
    ),
    "custom without its text": ("patch", {"patch": 1}, {"type": "custom_tool_call", "name": "patch", "input": '{"patch": 1}'}),
    "local shell": (
        "local_shell",
        {"command": ["ls"], "working_directory": "/", "timeout_ms": 9, "env": {"A": "b"}},
        {
            "type": "local_shell_call",
            "action": {
                "type": "exec",
                "command": ["ls"],
                "working_directory": "/",
                "timeout_ms": 9,
                "env": {"A": "b"},
                "user": None,
            },
        },
    ),
    "local shell without a command": (
        "local_shell",
        {"command": "ls"},
        {"type": "function_call", "name": "local_shell", "arguments": '{"command": "ls"}'},
    ),
    "shell": (
        "shell",
        {"commands": ["ls", "pwd"]},
        {
            "type": "shell_call",
            "action": {"commands": ["ls", "pwd"], "timeout_ms": None, "max_output_length": None},
        },
    ),
    "apply patch": (
        "apply_patch",
        {"type": "create_file", "path": "a", "diff": "+x"},
        {"type": "apply_patch_call", "operation": {"type": "create_file", "path": "a", "diff": "+x"}},
    ),
    "apply patch that deletes": (
        "apply_patch",
        {"type": "delete_file", "path": "a"},
        {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "a"}},
    ),
    "apply patch without a diff": (
        "apply_patch",
        {"type": "update_file", "path": "a"},
        {"type": "function_call", "name": "apply_patch", "arguments": '{"type": "update_file", "path": "a"}'},
    ),
    "tool search": (
        "tool_search",
        {"query": "x"},
        {"type": "tool_search_call", "execution": "client", "arguments": {"query": "x"}},
    ),
    "a tool that does not exist": (
        "crm.find",
        {"input": "x"},
        {"type": "function_call", "name": "crm.find", "arguments": '{"input": "x"}'},
    ),
}


def answered(item: dict[str, Any]) -> dict[str, Any]:
    """Return what an agent sends back for a call."""
    output: Any = "ok"
    if item["type"] == "shell_call":
        output = [{"stdout": "ok", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]
    made = {"type": f"{item['type']}_output", "call_id": item["call_id"], "output": output, "status": "completed"}
    if item["type"] == "local_shell_call":
        # These have no other id.
        made = {"type": "local_shell_call_output", "id": item["call_id"], "output": output}
    if item["type"] == "tool_search_call":
        made = {
            "type": "tool_search_output",
            "call_id": item["call_id"],
            "execution": "client",
            "status": "completed",
            "tools": [],
        }
    return made


@pytest.mark.asyncio
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("kind", CALLS)
async def test_a_call_has_the_form_of_its_tool_and_is_continued(serving: Any, kind: str, streamed: bool) -> None:
    name, arguments, wanted = CALLS[kind]
    async with serving([f"<think>\nhm\n</think>\n\nso\n{format_call(name, arguments)}", "done"]) as stage:
        client = stage.client()
        asked: dict[str, Any] = {"model": "any", "tools": TOOLS, "stream": streamed}
        answer = await client.responses.create(input="hello", **asked)
        if streamed:
            events = [event async for event in answer]
            answer = events[-1].response
            done = {event.output_index: event.item for event in events if event.type == "response.output_item.done"}
            assert [done[number] for number in range(3)] == answer.output
        items = [item.to_dict() for item in answer.output]
        assert {key: items[2][key] for key in wanted} == wanted
        assert [item["type"] for item in items[:2]] == ["reasoning", "message"]
        again = [{"role": "user", "content": "hello"}, *items, answered(items[2])]
        await client.responses.create(input=again, **asked)
        first, second = stage.recorder.calls
    assert second.parent == 0
    assert second.kept == len(stream_ids((first, second), 0))
    assert [message["role"] for message in second.messages] == ["tool"]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("kind", "events"),
    [
        ("function", ["function_call_arguments.delta", "function_call_arguments.done"]),
        ("custom", ["custom_tool_call_input.delta", "custom_tool_call_input.done"]),
        ("shell", [f"shell_call_command.{part}" for part in ("added", "delta", "done")] * 2),
        ("local shell", []),
        ("apply patch", []),
        ("tool search", []),
    ],
)
async def test_the_events_of_each_kind_of_call(serving: Any, kind: str, events: list[str]) -> None:
    name, arguments, _ = CALLS[kind]
    async with serving(format_call(name, arguments)) as stage:
        stream = await stage.client().responses.create(model="any", input="hello", tools=TOOLS, stream=True)
        found = [event async for event in stream]
    kinds = [event.type.removeprefix("response.") for event in found]
    assert kinds == ["created", "in_progress", "output_item.added", *events, "output_item.done", "completed"]
    assert found[2].item.status == "in_progress"
    assert found[2].item.id == found[-2].item.id
    assert found[-2].item == found[-1].response.output[0]


def test_a_custom_tool_is_a_function_of_one_text_whose_grammar_is_described() -> None:
    (tool,) = box([PATCH]).functions
    assert tool["function"]["parameters"]["required"] == ["input"]
    assert tool["function"]["description"].startswith("Patches.")
    assert GRAMMAR["definition"] in tool["function"]["description"]


def test_the_first_tool_of_a_namespace_describes_it() -> None:
    first, second = (tool["function"].get("description", "") for tool in box([CRM]).functions)
    assert "crm__: Customers." in first
    assert "Customers." not in second


def test_tools_of_namespaces_have_unique_names() -> None:
    tools = box([{**ADD, "name": "crm__find"}, CRM, {"type": "custom", "name": "shell"}, {"type": "shell"}])
    names = [tool["function"]["name"] for tool in tools.functions]
    assert names == ["crm__find", "crm__find_2", "crm__note", "shell", "shell_2"]
    item = {"type": "function_call", "call_id": "1", "name": "find", "namespace": "crm", "arguments": "{}"}
    assert read_call(item, "", tools)["tool_calls"][0]["function"]["name"] == "crm__find_2"


@pytest.mark.asyncio
async def test_tools_of_the_servers_are_left_out_with_one_notice(serving: Any) -> None:
    hosted = [{"type": kind} for kind in (*HOSTED, "web_search_2025_08_26", "computer_use_preview", "tool_search", "web_search")]
    async with serving(format_call("add", {})) as stage:
        for _ in range(2):
            answer = await stage.client().responses.create(model="any", input="hello", tools=[*hosted, ADD])
        shown, notices = stage.recorder.calls[0].tools, stage.recorder.notices
    assert [tool["function"]["name"] for tool in shown] == ["add"]
    assert answer.output[0].type == "function_call"
    assert len(notices) == 1
    assert notices[0].endswith(f": {', '.join((*HOSTED, 'tool_search'))}.")


@pytest.mark.parametrize(
    ("choice", "tools"),
    [
        ({"type": "web_search_preview"}, [{"type": "web_search_preview_2025_03_11"}]),
        ({"type": "web_search"}, [{"type": "web_search"}, ADD]),
        ({"type": "mcp", "server_label": "x"}, [{"type": "mcp", "server_label": "x"}, ADD]),
    ],
)
def test_a_choice_of_a_hosted_tool_is_left_to_the_model(choice: Any, tools: list[Any]) -> None:
    assert responses_request({"input": "hello", "tools": tools, "tool_choice": choice}).constraint is None


def test_a_choice_of_a_hosted_tool_that_is_not_offered_is_refused() -> None:
    with pytest.raises(ApiError, match="web_search"):
        responses_request({"input": "hello", "tools": [ADD], "tool_choice": {"type": "web_search"}})


@pytest.mark.asyncio
async def test_a_search_makes_its_tools_callable_without_a_new_prompt(serving: Any) -> None:
    says = [
        format_call("tool_search", {"query": "x"}),
        format_call("crm__find", {"a": 1}),
        format_call("crm__note", {"input": "x"}),
        "done",
    ]
    async with serving(says) as stage:
        items: list[Any] = [{"role": "user", "content": "hello"}]
        found = []
        for _ in range(4):
            answer = await stage.client().responses.create(model="any", input=items, tools=[SEARCH])
            item = answer.output[0].to_dict()
            found.append((item["type"], item.get("namespace")))
            items += [item]
            if item["type"] == "tool_search_call":
                items.append({**answered(item), "tools": [CRM]})
            elif item["type"] != "message":
                items.append(answered(item))
        calls = stage.recorder.calls
    assert found == [("tool_search_call", None), ("function_call", "crm"), ("custom_tool_call", "crm"), ("message", None)]
    assert [one.parent for one in calls] == [None, 0, 1, 2]
    assert [len(one.tools) for one in calls] == [1, 0, 0, 0]
    assert "crm__find" in calls[1].messages[0]["content"]


@pytest.mark.asyncio
async def test_tools_may_come_as_an_item(serving: Any) -> None:
    more = {"type": "additional_tools", "role": "developer", "tools": [CRM]}
    items = [more, {"role": "developer", "content": "be brief"}, {"role": "developer", "content": "be kind"}]
    async with serving(format_call("crm__note", {"input": "x"})) as stage:
        answer = await stage.client().responses.create(model="any", input=[*items, {"role": "user", "content": "hello"}])
        (recorded,) = stage.recorder.calls
    assert (answer.output[0].type, answer.output[0].namespace) == ("custom_tool_call", "crm")
    assert [message["content"] for message in recorded.messages] == ["be brief", "be kind", "hello"]


@pytest.mark.parametrize(
    ("choice", "name"),
    [
        ({"type": "function", "name": "add"}, "add"),
        ({"type": "function", "name": "find", "namespace": "crm"}, "crm__find"),
        ({"type": "custom", "name": "patch"}, "patch"),
        ({"type": "shell"}, "shell"),
        ({"type": "apply_patch"}, "apply_patch"),
    ],
)
def test_a_tool_of_any_kind_can_be_chosen(choice: Any, name: str) -> None:
    constraint = responses_request({"input": "hello", "tools": TOOLS, "tool_choice": choice}).constraint
    assert constraint is not None
    assert [tool["function"]["name"] for tool in constraint["tools"]] == [name]


def test_messages_of_other_agents_are_read() -> None:
    parts = [{"type": "input_text", "text": "Payload:"}, {"type": "encrypted_content", "encrypted_content": "say hi"}]
    item = {"type": "agent_message", "author": "/root", "recipient": "/root/a", "content": parts}
    assert read_items([item]) == [{"role": "user", "content": "Payload:\nsay hi"}]


def test_a_local_shell_is_answered_by_its_id() -> None:
    item = {"type": "local_shell_call_output", "id": "call12345", "output": "ok"}
    assert read_items([item])[0]["tool_call_id"] == "call12345"


class Remote:
    """Speaks chat and nothing else."""

    capabilities = Capabilities(token_ids=False, logprobs=False)

    def __init__(self) -> None:
        self.bodies: list[Any] = []

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def release(self, session: str) -> None: ...

    async def chat(self, body: Any) -> Any:
        self.bodies.append(body)
        message = {"content": None, "tool_calls": [call("crm__note", '{"input": "x"}')]}
        return {"choices": [{"message": message, "finish_reason": "tool_calls"}]}


@pytest.mark.asyncio
async def test_engines_that_speak_chat_are_offered_what_was_found(serving: Any) -> None:
    engine = Remote()
    items = [
        {"role": "user", "content": "hello"},
        {"type": "tool_search_call", "call_id": "1", "execution": "client", "arguments": {"query": "x"}},
        {"type": "tool_search_output", "call_id": "1", "execution": "client", "tools": [CRM]},
    ]
    async with serving(engine=engine) as stage:
        answer = await stage.client().responses.create(model="any", input=items, tools=[SEARCH])
    assert [tool["function"]["name"] for tool in engine.bodies[0]["tools"]] == ["tool_search", "crm__find", "crm__note"]
    assert (answer.output[0].type, answer.output[0].input) == ("custom_tool_call", "x")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"tools": [{"type": "custom"}]}, "tools[0]"),
        ({"tools": [{"type": "custom", "name": ""}]}, "tools[0]"),
        ({"tools": [{"type": "custom", "name": "x", "format": "lark"}]}, "tools[0].format"),
        ({"tools": [{"type": "custom", "name": "x", "format": {"type": "grammar"}}]}, "tools[0].format"),
        ({"tools": [{"type": "namespace", "name": "x"}]}, "tools[0]"),
        ({"tools": [ADD, {"type": "namespace", "name": "x", "tools": [{"type": "shell"}]}]}, "tools[1].tools[0]"),
        ({"tools": [{"type": "namespace", "name": "x", "tools": [{"type": "custom", "name": 5}]}]}, "tools[0].tools[0]"),
        ({"tools": [None]}, "tools[0]"),
        ({"tools": [{"type": ["custom"]}]}, "tools[0]"),
        ({"tools": TOOLS, "tool_choice": {"type": "custom", "name": "note"}}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": {"type": "custom", "name": []}}, "tool_choice"),
        ({"tools": [{"type": "web_search"}], "tool_choice": "required"}, "tool_choice"),
        ({"input": [{"type": "additional_tools", "tools": [{"type": "telepathy"}]}]}, "input[0].tools[0]"),
        ({"input": [{"type": "additional_tools"}]}, "input[0].tools"),
        ({"input": [{"type": "custom_tool_call", "call_id": "1", "name": "x"}]}, "input[0].input"),
        ({"input": [{"type": "custom_tool_call", "name": "x", "input": "x"}]}, "input[0].call_id"),
        (
            {"input": [{"type": "function_call", "call_id": "1", "name": "x", "arguments": "{}", "namespace": 5}]},
            "input[0].namespace",
        ),
        ({"input": [{"type": "custom_tool_call_output", "call_id": "1"}]}, "input[0].output"),
        (
            {"input": [{"type": "custom_tool_call_output", "call_id": "1", "output": [{"type": "input_image"}]}]},
            "input[0].output[0]",
        ),
        ({"input": [{"type": "local_shell_call", "call_id": "1"}]}, "input[0].action"),
        ({"input": [{"type": "local_shell_call_output", "output": "x"}]}, "input[0].id"),
        ({"input": [{"type": "shell_call_output", "call_id": "1", "output": "x"}]}, "input[0].output"),
        ({"input": [{"type": "apply_patch_call", "call_id": "1", "operation": []}]}, "input[0].operation"),
        ({"input": [{"type": "apply_patch_call_output", "call_id": "1"}]}, "input[0].status"),
        ({"input": [{"type": "tool_search_call", "call_id": "1", "arguments": "x"}]}, "input[0].arguments"),
        ({"input": [{"type": "tool_search_output", "call_id": "1", "tools": [{"type": "custom"}]}]}, "input[0].tools[0]"),
        ({"input": [{"type": "agent_message"}]}, "input[0].content"),
        ({"input": [{"type": "compaction", "encrypted_content": "x"}]}, "input[0]"),
    ],
)
async def test_what_is_malformed_is_400_and_names_the_place(serving: Any, change: dict[str, Any], param: str) -> None:
    async with serving("yes") as stage:
        api = stage.recorder.tuner.as_oai_baseurl_apikey()
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {api.api_key}"}) as client:
            response = await client.post(f"{api.base_url}/responses", content=json.dumps({"input": "hello", **change}))
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)
    assert stage.recorder.calls == ()


def test_the_items_are_those_of_the_sdk_and_of_the_description() -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(openai.types.responses.ResponseOutputItem)
    schemas = {"components": read_document(Path(__file__).parent / "openapi")["components"]}
    described = jsonschema.Draft202012Validator({"$ref": "#/components/schemas/CallItem", **schemas})
    offered = jsonschema.Draft202012Validator({"$ref": "#/components/schemas/ResponsesRequest", **schemas})
    offered.validate({"input": "hello", "tools": [*TOOLS, *({"type": kind} for kind in HOSTED)]})
    tools = box(TOOLS)
    for name, arguments, _ in CALLS.values():
        made = write_call(tools.forms.get(name), call(name, json.dumps(arguments)))
        item = {"id": "x_1", **made, "status": "completed"}
        assert adapter.validate_python(item, strict=True).type == made["type"]
        described.validate(item)
        offered.validate({"input": [item, answered(item)]})
