"""A chat request, read once from its JSON body."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from attrs import evolve, frozen

from astuner.gateway.errors import bad_request
from astuner.gateway.messages import normalise
from astuner.schema import Message

IGNORED = ("presence_penalty", "frequency_penalty", "repetition_penalty", "min_p", "logit_bias")
"""Fields that would change the distribution and that no engine is asked for."""

MOST_CHOICES = 128


@frozen(kw_only=True, eq=False)
class ChatRequest:
    """What an agent asks for."""

    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    calls_tools: bool = False
    """Whether tool calls are read out of the answer."""
    parallel_tool_calls: bool = True
    constraint: Mapping[str, Any] | None = None
    """The grammar that was asked for, by `type`: `json_object`, `json_schema` (`schema`), `tool_call` (`tools`)."""
    n: int = 1
    stop: tuple[str, ...] = ()
    seed: int | None = None
    logprobs: bool = False
    top_logprobs: int = 0
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stream: bool = False
    include_usage: bool = False
    template_kwargs: Mapping[str, Any]
    """Extra variables of the chat template, as in `chat_template_kwargs: {enable_thinking: false}`."""
    ignored: tuple[str, ...] = ()
    """Fields that were sent, would matter, and have no effect."""
    body: Mapping[str, Any]
    """The body as it came, for engines that speak this API themselves."""

    def without_tools(self) -> ChatRequest:
        """Return the request as if no tools had come with it."""
        body = {key: value for key, value in self.body.items() if key not in ("tools", "tool_choice", "parallel_tool_calls")}
        return evolve(self, tools=(), calls_tools=False, body=body)

    def root(self, agent: str) -> bytes:
        """Return the digest that separates conversations which cannot share a stream."""
        key = json.dumps([agent, self.tools, self.template_kwargs], separators=(",", ":"), default=str)
        return blake2b(key.encode(), digest_size=16).digest()


def read_request(raw: bytes) -> ChatRequest:
    """Parse a body; raises ApiError (400) that names the reason and the parameter."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"The body is not valid JSON: {error}.") from None
    if not isinstance(body, dict):
        raise bad_request("The body must be a JSON object.")
    if body.get("functions"):
        raise bad_request("'functions' is not served; send 'tools'.", "functions")
    if "audio" in (body.get("modalities") or ()):
        raise bad_request("Audio output is not served.", "modalities")
    tools = _tools(body.get("tools"))
    choice = body.get("tool_choice") or "auto"
    options = body.get("stream_options")
    kwargs = body.get("chat_template_kwargs")
    if kwargs is not None and not isinstance(kwargs, dict):
        raise bad_request("'chat_template_kwargs' must be an object.", "chat_template_kwargs")
    return ChatRequest(
        messages=normalise(body.get("messages")),
        tools=tools,
        calls_tools=bool(tools) and choice != "none",
        parallel_tool_calls=body.get("parallel_tool_calls") is not False,
        constraint=_tool_constraint(choice, tools) or _format_constraint(body.get("response_format")),
        n=_integer(body, "n", 1, MOST_CHOICES) or 1,
        stop=_stop(body.get("stop")),
        seed=_integer(body, "seed", None, None),
        logprobs=bool(body.get("logprobs")),
        top_logprobs=(_integer(body, "top_logprobs", 0, 20) or 0) if body.get("logprobs") else 0,
        max_tokens=_integer(body, "max_completion_tokens", 1, None) or _integer(body, "max_tokens", 1, None),
        temperature=_number(body, "temperature", 0.0, 100.0),
        top_p=_number(body, "top_p", 0.0, 1.0),
        top_k=_integer(body, "top_k", -1, None),
        stream=bool(body.get("stream")),
        include_usage=isinstance(options, dict) and bool(options.get("include_usage")),
        template_kwargs=kwargs or {},
        ignored=tuple(name for name in IGNORED if body.get(name)),
        body=body,
    )


def _tools(tools: Any) -> tuple[Mapping[str, Any], ...]:
    if tools is None:
        return ()
    if not isinstance(tools, list):
        raise bad_request("'tools' must be a list.", "tools")
    for number, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise bad_request(f"tools[{number}] must be a function with a name.", f"tools[{number}]")
    return tuple(tools)


def _tool_constraint(choice: Any, tools: tuple[Mapping[str, Any], ...]) -> Mapping[str, Any] | None:
    if choice in ("auto", "none"):
        return None
    if not tools:
        raise bad_request("'tool_choice' is set, but there are no 'tools'.", "tool_choice")
    if choice == "required":
        return {"type": "tool_call", "tools": tools}
    function = choice.get("function") if isinstance(choice, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    named = tuple(tool for tool in tools if tool["function"]["name"] == name)
    if not named:
        known = ", ".join(tool["function"]["name"] for tool in tools)
        raise bad_request(f"'tool_choice' is {choice!r}; say auto, none, required, or name one of: {known}.", "tool_choice")
    return {"type": "tool_call", "tools": named}


def _format_constraint(wanted: Any) -> Mapping[str, Any] | None:
    kind = wanted.get("type") if isinstance(wanted, dict) else wanted
    if kind in (None, "text"):
        return None
    if kind == "json_object":
        return {"type": "json_object"}
    described = wanted.get("json_schema") if isinstance(wanted, dict) else None
    if kind != "json_schema" or not isinstance(described, dict) or not isinstance(described.get("schema"), dict):
        raise bad_request("'response_format' must be text, json_object, or json_schema with a schema.", "response_format")
    return {"type": "json_schema", "schema": described["schema"]}


def _stop(stop: Any) -> tuple[str, ...]:
    strings = [stop] if isinstance(stop, str) else stop or []
    if not isinstance(strings, list) or not all(isinstance(text, str) and text for text in strings):
        raise bad_request("'stop' must be a string or a list of strings, none of them empty.", "stop")
    return tuple(strings)


def _integer(body: Mapping[str, Any], name: str, low: int | None, high: int | None) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise bad_request(f"{name!r} must be an integer, not {value!r}.", name)
    if (low is not None and value < low) or (high is not None and value > high):
        bounds = f"at least {low}" if high is None else f"from {low} to {high}"
        raise bad_request(f"{name!r} must be {bounds}, not {value}.", name)
    return value


def _number(body: Mapping[str, Any], name: str, low: float, high: float) -> float | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
        raise bad_request(f"{name!r} must be a number from {low:g} to {high:g}, not {value!r}.", name)
    return float(value)
