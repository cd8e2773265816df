"""Bodies of Gemini's API, translated to chat completions, so that a conversation is the same in every API.

Names are read in camel case, as Google's SDKs send them, and in snake case, as its examples have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from astuner.model.gateway.wire_apis import (
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
from astuner_wire_apis.gemini_contents import read_contents, read_instruction, rename
from astuner_wire_apis.gemini_tools import read_tool_config, read_tools, to_json_schema

IGNORED = ("presencePenalty", "frequencyPenalty", "responseLogprobs", "logprobs", "mediaResolution", "speechConfig")
"""Fields of `generationConfig` that would matter and that no engine receives."""

MIME_TYPES = ("text/plain", "application/json")


def gemini_request(
    body: Mapping[str, Any], read_messages: Normalise = normalise, *, stream: bool = False, counting: bool = False
) -> ChatRequest:
    """Read a body of Gemini's API; raises ApiError (400) that names the reason and the place.

    `counting` reads one of `countTokens`, which may wrap that of another request.
    """
    body = rename(body)
    if counting and (wrapped := read_object(body, "generateContentRequest")):
        body = rename(wrapped)
    if body.get("cachedContent"):
        raise bad_request("'cachedContent' is not served; send the contents themselves.", "cachedContent")
    config = rename(read_object(body, "generationConfig"))
    tools, hosted = read_tools(read_list(body, "tools"))
    choice, allowed = read_tool_config(rename(read_object(body, "toolConfig")), tools)
    thinking, ignored = _read_thinking(rename(read_object(config, "thinkingConfig")))
    chat: dict[str, Any] = {
        "messages": [*read_instruction(body.get("systemInstruction")), *read_contents(body.get("contents"))],
        "tools": tools,
        **choice,
        "temperature": config.get("temperature"),
        "top_p": config.get("topP"),
        "top_k": config.get("topK"),
        "max_tokens": read_integer(config, "maxOutputTokens", 1, None),
        "stop": list(read_strings(config, "stopSequences")),
        "n": read_integer(config, "candidateCount", 1, None),
        "seed": config.get("seed"),
        "stream": stream,
        "response_format": _read_format(config),
        **thinking,
    }
    request = chat_request({name: value for name, value in chat.items() if value not in (None, [], {})}, read_messages)
    ignored += tuple(f"generationConfig.{name}" for name in IGNORED if config.get(name))
    constraint = request.constraint
    if constraint is not None and constraint["type"] == "tool_call" and allowed:
        constraint = {**constraint, "tools": tuple(tool for tool in request.tools if tool["function"]["name"] in allowed)}
    return evolve(request, ignored=(*request.ignored, *ignored), hosted_tools=hosted, constraint=constraint)


def _read_thinking(wanted: Mapping[str, Any]) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return fields of chat completions, and the names of fields without effect.

    `includeThoughts` is not one of them: thoughts are always shown, since an answer without them could not come back unchanged.
    """
    read_flag(wanted, "includeThoughts", False)
    budget = read_integer(wanted, "thinkingBudget", -1, None)
    level = (read_text(wanted, "thinkingLevel") or "").lower().replace("thinking_level_unspecified", "")
    ignored = ("thinkingConfig.thinkingBudget",) if budget is not None and budget > 0 else ()
    found: dict[str, Any] = {"reasoning_effort": level} if level else {}
    if budget is not None:
        found["chat_template_kwargs"] = {"enable_thinking": budget != 0}
    return found, ignored


def _read_format(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    modalities = [value.lower() for value in read_strings(config, "responseModalities")]
    if modalities not in ([], ["text"]):
        raise bad_request("'generationConfig.responseModalities' may be ['TEXT'] alone; no other output is served.", _MODALITIES)
    kind = read_text(config, "responseMimeType") or "text/plain"
    if kind not in MIME_TYPES:
        known = ", ".join(MIME_TYPES)
        raise bad_request(f"'generationConfig.responseMimeType' is {format_value(kind)}; known: {known}.", _MIME)
    if kind == "text/plain":
        return None
    for name in ("responseJsonSchema", "responseSchema"):
        if schema := read_object(config, name):
            return {"type": "json_schema", "json_schema": {"name": "answer", "schema": to_json_schema(schema)}}
    return {"type": "json_object"}


_MODALITIES, _MIME = "generationConfig.responseModalities", "generationConfig.responseMimeType"
