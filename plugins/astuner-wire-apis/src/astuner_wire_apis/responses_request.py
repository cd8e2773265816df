"""Bodies of `/v1/responses`, read as requests for chat completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from astuner.model.gateway.wire_apis import (
    LARGEST,
    MOST_LOGPROBS,
    ChatRequest,
    Normalise,
    bad_request,
    chat_request,
    format_value,
    normalise,
    read_flag,
    read_integer,
    read_list,
    read_object,
    read_strings,
    read_text,
)
from astuner_wire_apis.responses_calls import KINDS
from astuner_wire_apis.responses_items import read_items
from astuner_wire_apis.responses_tools import NAMED, Toolbox, ToolForm, find_hosted

REFUSED: Mapping[str, str] = {
    "background": "answers are not kept for later",
    "conversation": "conversations are not kept; send 'previous_response_id' or the items themselves",
    "prompt": "there are no stored prompts; send 'instructions' and 'input'",
    "context_management": "the context is never shortened here; shorten 'input'",
}
"""Fields that the gateway does not support, and why."""

PREFIX = "resp_"
"""Prefix of response ids."""

SAME = ("temperature", "top_p", "top_k", "seed", "stop", "parallel_tool_calls", "chat_template_kwargs")
"""Fields shared with chat completions; some servers of this API accept them all."""

CHOSEN = ("function", *KINDS)
"""Types of tools that `tool_choice` may name."""


def responses_request(body: Mapping[str, Any], read_messages: Normalise = normalise) -> ChatRequest:
    """Read a body; raises ApiError (400) that names the reason and the parameter."""
    for name, why in REFUSED.items():
        if body.get(name):
            raise bad_request(f"{name!r} is not served: {why}.", name)
    instructions = read_text(body, "instructions")
    truncation = read_text(body, "truncation")
    if truncation not in (None, "auto", "disabled"):
        raise bad_request(f"'truncation' must be auto or disabled, not {format_value(truncation)}.", "truncation")
    previous = read_text(body, "previous_response_id")
    read_flag(body, "store", True)
    read_object(body, "metadata")
    preamble = [{"role": "system", "content": instructions}] if instructions else []
    chat: dict[str, Any] = {name: body[name] for name in SAME if body.get(name) is not None}
    tools = Toolbox()
    tools.offer(read_list(body, "tools"), "tools")
    chat["messages"] = [*preamble, *read_items(body.get("input"), tools)]
    chat["tools"] = tools.functions or None
    chat["tool_choice"] = _tool_choice(body.get("tool_choice"), tools)
    chat["max_tokens"] = read_integer(body, "max_output_tokens", 1, LARGEST)
    chat["response_format"] = _response_format(read_object(body, "text").get("format"))
    chat["reasoning_effort"] = _effort(read_object(body, "reasoning").get("effort"))
    chat["stream"] = read_flag(body, "stream", False)
    chat["logprobs"] = "message.output_text.logprobs" in read_strings(body, "include")
    chat["top_logprobs"] = read_integer(body, "top_logprobs", 0, MOST_LOGPROBS) or 0
    request = chat_request({name: value for name, value in chat.items() if value is not None}, read_messages)
    # An engine that speaks chat has to be offered what was found as well.
    more = {"tools": [*tools.functions, *tools.found]} if tools.found else {}
    ignored = [*request.ignored, *(["truncation"] if truncation == "auto" else ())]
    ignored += ["text.verbosity"] if read_object(body, "text").get("verbosity") else ()
    return evolve(
        request,
        previous=None if previous is None else previous.removeprefix(PREFIX),
        preamble=len(preamble),
        ignored=tuple(ignored),
        found_tools=tuple(tools.found),
        tool_forms=tools.forms,
        hosted_tools=tuple(tools.hosted),
        body={**request.body, **more},
        sent=body,
    )


def _tool_choice(choice: Any, tools: Toolbox) -> Any:
    kind = choice.get("type") if isinstance(choice, dict) else None
    if find_hosted(choice) in tools.hosted:
        # The tool is left out.
        return "auto"
    listed = choice.get("tools") if kind == "allowed_tools" else None
    if isinstance(listed, list):
        named = [_tool_choice(one, tools) for one in listed if find_hosted(one) not in tools.hosted]
        if listed and not named:
            # All of them are left out.
            return "none"
        return {"type": kind, kind: {"mode": choice.get("mode"), "tools": named}}
    if kind not in CHOSEN:
        return choice
    name, namespace = choice.get("name") if kind in NAMED else kind, choice.get("namespace")
    if not isinstance(name, str) or not isinstance(namespace, str | None):
        raise bad_request("'tool_choice' must name a tool.", "tool_choice")
    return {"type": "function", "function": {"name": tools.find_name(ToolForm(kind, name, namespace))}}


def _effort(effort: Any) -> str | None:
    if effort is not None and not isinstance(effort, str):
        raise bad_request(f"'reasoning.effort' must be a string, not {format_value(effort)}.", "reasoning.effort")
    return effort


def _response_format(wanted: Any) -> Mapping[str, Any] | None:
    kind = wanted.get("type") if isinstance(wanted, dict) else wanted
    if kind in (None, "text"):
        return None
    if isinstance(wanted, dict) and kind == "json_object":
        return {"type": "json_object"}
    if not isinstance(wanted, dict) or kind != "json_schema" or not isinstance(wanted.get("schema"), dict):
        raise bad_request("'text.format' must be text, json_object, or json_schema with a schema.", "text.format")
    described = {key: wanted[key] for key in ("name", "description", "schema", "strict") if wanted.get(key) is not None}
    return {"type": "json_schema", "json_schema": described}
