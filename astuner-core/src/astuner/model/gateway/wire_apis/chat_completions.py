"""`POST /v1/chat/completions`, OpenAI's API."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from astuner.model.gateway.recording.messages import normalise
from astuner.model.gateway.recording.request import ChatRequest
from astuner.model.gateway.wire_apis.fields import (
    LARGEST,
    read_flag,
    read_integer,
    read_list,
    read_number,
    read_object,
    read_strings,
    read_text,
)
from astuner.model.gateway.wire_apis.wire_api import GenerationRoute, ModelRoute, Normalise, WireApi, encode_event, encode_json
from astuner.model.rendering.errors import bad_request

if TYPE_CHECKING:
    from astuner.model.gateway.recording.choice_events import Answer, Delta
    from astuner.model.rendering.errors import ApiError

IGNORED = (
    *("presence_penalty", "frequency_penalty", "repetition_penalty", "length_penalty", "min_p", "logit_bias"),
    *("min_tokens", "stop_token_ids", "ignore_eos", "bad_words", "allowed_token_ids", "use_beam_search"),
    *("structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar"),
    *("continue_final_message", "verbosity", "web_search_options"),
)
"""Fields that would change the distribution, in OpenAI's API or in servers of it; no engine receives them."""

MOST_CHOICES = 128

MOST_LOGPROBS = 20

END_OF_STREAM = b"data: [DONE]\n\n"

Logprobs = Sequence[Mapping[str, Any]] | None
"""An entry per token of a part, if requested."""


def chat_request(body: Mapping[str, Any], read_messages: Normalise = normalise) -> ChatRequest:
    """Read a body of chat completions; raises ApiError (400) that names the reason and the parameter."""
    if body.get("functions"):
        raise bad_request("'functions' is not served; send 'tools'.", "functions")
    if body.get("modalities") not in (None, [], ["text"]):
        raise bad_request("'modalities' may be ['text'] alone; no other output is served.", "modalities")
    tools = _tools(read_list(body, "tools"))
    choice = body.get("tool_choice") or "auto"
    logprobs = read_flag(body, "logprobs", False)
    effort = read_text(body, "reasoning_effort")
    return ChatRequest(
        messages=read_messages(body.get("messages")),
        tools=tools,
        calls_tools=bool(tools) and choice != "none",
        parallel_tool_calls=read_flag(body, "parallel_tool_calls", True),
        constraint=_tool_constraint(choice, tools) or _format_constraint(body.get("response_format")),
        logprobs=logprobs,
        top_logprobs=(read_integer(body, "top_logprobs", 0, MOST_LOGPROBS) or 0) if logprobs else 0,
        max_tokens=read_integer(body, "max_completion_tokens", 1, LARGEST) or read_integer(body, "max_tokens", 1, LARGEST),
        # Templates of models with an effort setting use this name; others get an extra variable.
        template_kwargs={**({"reasoning_effort": effort} if effort else {}), **read_object(body, "chat_template_kwargs")},
        body=body,
        **read_common_fields(body),
    )


def read_common_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a `ChatRequest` that OpenAI's completions with and without chat share."""
    return {
        "n": read_integer(body, "n", 1, MOST_CHOICES) or 1,
        "stop": read_strings(body, "stop"),
        "seed": read_integer(body, "seed", None, None),
        "temperature": read_number(body, "temperature", 0.0, 100.0),
        "top_p": read_number(body, "top_p", 0.0, 1.0),
        "top_k": read_integer(body, "top_k", -1, LARGEST),
        "stream": read_flag(body, "stream", False),
        "include_usage": read_flag(read_object(body, "stream_options"), "include_usage", False),
        "ignored": tuple(name for name in IGNORED if body.get(name)),
    }


@frozen(kw_only=True, eq=False)
class ChatWriter:
    """Writes one chat completion."""

    request: ChatRequest
    id: str
    model: str
    created: int = field(factory=lambda: int(time.time()))

    def write_whole(self, answers: Sequence[Answer]) -> bytes:
        """Return the body of a response that is not streamed."""
        choices = [
            self._choice(number, "message", {**answer.reply, "refusal": None}, answer.finish_reason, answer.logprobs)
            for number, answer in enumerate(answers)
        ]
        return encode_json({**self._head(), "choices": choices, "usage": self._usage(answers)})

    def write_opening(self) -> bytes:
        """Return the chunk that begins each choice."""
        return b"".join(self._chunk(choice, {"role": "assistant", "content": ""}, None, None) for choice in range(self.request.n))

    def write_delta(self, delta: Delta) -> bytes:
        """Return a chunk."""
        return self._chunk(delta.choice, delta.fields, None, delta.logprobs)

    def write_done(self, choice: int, answer: Answer) -> bytes:
        """Return the chunk that carries the finish reason."""
        return self._chunk(choice, {}, answer.finish_reason, answer.logprobs or None)

    def write_closing(self, answers: Sequence[Answer]) -> bytes:
        """Return the usage, if requested, and the end."""
        if not self.request.include_usage:
            return END_OF_STREAM
        return encode_event({**self._head(".chunk"), "choices": [], "usage": self._usage(answers)}) + END_OF_STREAM

    def write_failure(self, error: ApiError) -> bytes:
        """Return the error as an event, which SDKs raise."""
        return encode_event(error.body)

    def _chunk(self, choice: int, delta: Mapping[str, Any], finish_reason: str | None, logprobs: Logprobs) -> bytes:
        fields = self._choice(choice, "delta", delta, finish_reason, logprobs)
        return encode_event({**self._head(".chunk"), "choices": [fields]})

    def _choice(
        self, number: int, kind: str, fields: Mapping[str, Any], finish_reason: str | None, logprobs: Logprobs
    ) -> Mapping[str, Any]:
        shown = None if logprobs is None else {"content": logprobs, "refusal": None}
        return {"index": number, kind: fields, "logprobs": shown, "finish_reason": finish_reason}

    def _head(self, part: str = "") -> dict[str, Any]:
        known = {"id": f"chatcmpl-{self.id}", "object": f"chat.completion{part}", "created": self.created, "model": self.model}
        return {**known, "system_fingerprint": None}

    def _usage(self, answers: Sequence[Answer]) -> dict[str, Any]:
        """Count tokens as OpenAI does: the prompt once, all choices' answers."""
        prompt = max(answer.prompt_tokens for answer in answers)
        completion = sum(answer.completion_tokens for answer in answers)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "completion_tokens_details": {"reasoning_tokens": sum(answer.reasoning_tokens for answer in answers)},
            "prompt_tokens_details": {"cached_tokens": min(answer.cached_tokens for answer in answers)},
        }


def describe_model(name: str) -> Mapping[str, Any]:
    """Return a model as OpenAI lists it."""
    return {"id": name, "object": "model", "created": 0, "owned_by": "astuner"}


CHAT_COMPLETIONS = WireApi(
    routes=(
        GenerationRoute("/v1/chat/completions", chat_request),
        ModelRoute("/v1/models", lambda name: {"object": "list", "data": [describe_model(name)]}),
        ModelRoute("/v1/models/{model}", describe_model),
    ),
    make_writer=lambda request, id_, model: ChatWriter(request=request, id=id_, model=model),
)
"""The API that most agents speak."""


def _tools(tools: list[Any]) -> tuple[Mapping[str, Any], ...]:
    for place, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise bad_request(f"tools[{place}] must be a function with a name.", f"tools[{place}]")
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
        raise bad_request(f"'tool_choice' is {choice!r}; use auto, none, required, or name one of: {known}.", "tool_choice")
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
