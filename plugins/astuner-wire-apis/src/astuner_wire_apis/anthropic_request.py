"""Bodies of Anthropic's Messages API, translated to chat completions, so that a conversation is the same in every API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve

from astuner.model.gateway.wire_apis import (
    ChatRequest,
    Normalise,
    bad_request,
    chat_request,
    format_value,
    normalise,
    read_integer,
    read_list,
    read_object,
    read_string_in,
    read_strings,
    read_text,
    unwrap_arguments,
)
from astuner_wire_apis.anthropic_blocks import Block, read_block_text, read_blocks
from astuner_wire_apis.anthropic_tools import read_tool_choice, read_tools

THINKS = {"enabled": True, "adaptive": True, "between_tools": True, "disabled": False}
"""Types of `thinking`, and whether the template opens the answer with reasoning."""


def messages_request(body: Mapping[str, Any], read_messages: Normalise = normalise, *, counting: bool = False) -> ChatRequest:
    """Read a body of the Messages API; raises ApiError (400) that names the reason and the place.

    With `counting`, `max_tokens` may be missing.
    """
    if not counting and read_integer(body, "max_tokens", 1, None) is None:
        raise bad_request("'max_tokens' is missing.", "max_tokens")
    given = read_list(body, "tools")
    tools, hosted = read_tools(given)
    left_out = [tool.get("name") for tool in given if tool.get("type") in hosted]
    kwargs, ignored = _read_thinking(read_object(body, "thinking"))
    output = read_object(body, "output_config")
    chat: dict[str, Any] = {
        **{name: body.get(name) for name in ("max_tokens", "temperature", "top_p", "top_k", "stream", "seed")},
        **read_tool_choice(read_object(body, "tool_choice"), tools, left_out),
        "messages": [*_system(body.get("system")), *_conversation(body.get("messages"))],
        "tools": tools,
        "stop": list(read_strings(body, "stop_sequences")),
        "response_format": _format(output.get("format") or body.get("output_format")),
        "reasoning_effort": read_text(output, "effort"),
        "chat_template_kwargs": {**kwargs, **read_object(body, "chat_template_kwargs")},
    }
    ignored += tuple(name for name in ("context_management", "container") if body.get(name))
    hosted += ("mcp_servers",) if body.get("mcp_servers") else ()
    request = chat_request({name: value for name, value in chat.items() if value not in (None, [], {})}, read_messages)
    return evolve(request, ignored=(*request.ignored, *ignored), hosted_tools=hosted) if ignored or hosted else request


def _system(system: Any) -> Iterator[Mapping[str, Any]]:
    if system:
        yield {"role": "system", "content": [read_block_text(block, place) for place, block in read_blocks(system, "system")]}


def _conversation(messages: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the messages; as in the API, neighbouring messages of one role are one turn."""
    if not isinstance(messages, list) or not messages:
        raise bad_request("'messages' must be a list with at least one message.", "messages")
    turns: list[tuple[str, list[Block]]] = []
    for number, message in enumerate(messages):
        place = f"messages[{number}]"
        if not isinstance(message, dict):
            raise bad_request(f"{place} must be an object.", place)
        role = message.get("role")
        if role not in ("user", "assistant", "system"):
            raise bad_request(f"{place}.role is {format_value(role)}; known roles: user, assistant, system.", f"{place}.role")
        blocks = read_blocks(message.get("content"), f"{place}.content")
        if not blocks and role != "assistant":
            raise bad_request(f"{place}.content is empty.", f"{place}.content")
        if turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
        else:
            turns.append((role, blocks))
    for role, blocks in turns:
        yield from [_assistant(blocks)] if role == "assistant" else _split_turn(role, blocks)


def _split_turn(role: str, blocks: Sequence[Block]) -> Iterator[Mapping[str, Any]]:
    """Yield a turn of the user or system: its texts as one message, each tool result as a separate one."""
    texts: list[str] = []
    for place, block in blocks:
        if block.get("type") != "tool_result" or role != "user":
            texts.append(read_block_text(block, place))
            continue
        if texts:
            yield {"role": role, "content": texts}
            texts = []
        yield _result(block, place)
    if texts:
        yield {"role": role, "content": texts}


def _result(block: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    call_id = read_string_in(block, "tool_use_id", place)
    content = block.get("content")
    parts = [] if content is None else [read_block_text(part, at) for at, part in read_blocks(content, f"{place}.content")]
    if block.get("is_error"):
        # Chat templates cannot mark errors, and a model must see that its call failed.
        parts = ["Error:", *parts]
    return {"role": "tool", "tool_call_id": call_id, "content": parts}


def _assistant(blocks: Sequence[Block]) -> Mapping[str, Any]:
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[Mapping[str, Any]] = []
    for place, block in blocks:
        kind = block.get("type")
        if kind == "tool_use":
            calls.append(_call(block, place))
        elif kind == "thinking":
            thoughts.append(read_string_in(block, "thinking", place))
        elif kind != "redacted_thinking":
            # Redacted thinking was encrypted by another model's server and cannot be read.
            texts.append(read_block_text(block, place))
    # A streamed answer may have text before and after a tool call; both are the content.
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
    if any(thoughts):
        message["reasoning_content"] = "".join(thoughts)
    if calls:
        message["tool_calls"] = calls
    return message


def _call(block: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    given = block.get("input")
    if not isinstance(given, dict):
        raise bad_request(f"{place}.input must be an object.", f"{place}.input")
    function = {"name": read_string_in(block, "name", place), "arguments": unwrap_arguments(given)}
    return {"id": read_string_in(block, "id", place), "type": "function", "function": function}


def _read_thinking(wanted: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return the variables of the template, and the fields that have no effect.

    `display` is not one of them: reasoning is always shown, since without it an answer could not be sent back unchanged.
    """
    kind = wanted.get("type")
    if not wanted:
        return {}, ()
    if not isinstance(kind, str) or kind not in THINKS:
        raise bad_request(f"'thinking.type' is {format_value(kind)}; known: {', '.join(THINKS)}.", "thinking.type")
    return {"enable_thinking": THINKS[kind]}, ("thinking.budget_tokens",) if wanted.get("budget_tokens") else ()


def _format(wanted: Any) -> Mapping[str, Any] | None:
    if wanted is None:
        return None
    if not isinstance(wanted, dict) or wanted.get("type") != "json_schema" or not isinstance(wanted.get("schema"), dict):
        raise bad_request("'output_config.format' must be of type json_schema, with a schema.", "output_config.format")
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": wanted["schema"]}}
