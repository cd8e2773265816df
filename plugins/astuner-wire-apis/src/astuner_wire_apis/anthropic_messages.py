"""`POST /v1/messages`, Anthropic's API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import define, field

from astuner.model.gateway.wire_apis import (
    INVALID_JSON,
    Answer,
    ApiError,
    CountRoute,
    Delta,
    GenerationRoute,
    Headers,
    ModelRoute,
    WireApi,
    encode_event,
    encode_json,
    read_bearer,
    wrap_arguments,
)
from astuner_wire_apis.anthropic_request import messages_request

TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    503: "overloaded_error",
    504: "timeout_error",
}
"""Error types by status; every other status is an `invalid_request_error`."""

STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}

UNSIGNED = "unsigned"
"""The signature of every thought: clients require one; the gateway recognises its own answers by their content."""


@define(kw_only=True, eq=False)
class MessageWriter:
    """Writes one message. Its stream is a sequence of blocks, each with a start and a stop event."""

    id: str
    model: str
    _started: bool = field(default=False, init=False)
    _blocks: int = field(default=0, init=False)
    """Number of blocks started."""
    _open: str | None = field(default=None, init=False)
    """The type of the open block."""

    def write_whole(self, answers: Sequence[Answer]) -> bytes:
        """Return the body of a response that is not streamed."""
        answer = answers[0]
        ending = {**_describe_end(answer), "usage": usage(answer)}
        return encode_json({**self._message(), "content": list(_content(answer.reply)), **ending})

    def write_opening(self) -> bytes:
        """Return nothing: the message starts with its prompt's token count, which comes with the first part."""
        return b""

    def write_delta(self, delta: Delta) -> bytes:
        """Return the next part of a block, after the start event of a new block."""
        parts = [self._start(delta)]
        for name, value in delta.fields.items():
            if name == "tool_calls":
                parts += [self._tool_use(call, more=delta.open) for call in value]
            elif value and name in ("content", "reasoning_content"):
                parts.append(self._text("text" if name == "content" else "thinking", value))
        return b"".join(parts)

    def write_done(self, choice: int, answer: Answer) -> bytes:
        """Return the end of the last block, and an empty text if there is nothing but reasoning."""
        empty = b"" if answer.reply.get("content") or answer.reply.get("tool_calls") else self._begin(_block("text", ""))
        return self._start(answer) + empty + self._end()

    def write_closing(self, answers: Sequence[Answer]) -> bytes:
        """Return the stop reason, the usage and the end of the message."""
        ending = {"type": "message_delta", "delta": _describe_end(answers[0]), "usage": usage(answers[0])}
        return _event(ending) + _event({"type": "message_stop"})

    def write_failure(self, error: ApiError) -> bytes:
        """Return the error as an event, which SDKs raise."""
        return encode_event(error_body(error), "error")

    def _start(self, first: Answer | Delta) -> bytes:
        if self._started:
            return b""
        self._started = True
        start = {**self._message(), "usage": usage(first)}
        return _event({"type": "message_start", "message": start}) + _event({"type": "ping"})

    def _message(self) -> dict[str, Any]:
        known = {"id": self.id, "type": "message", "role": "assistant", "model": self.model}
        return {**known, "content": [], "stop_reason": None, "stop_sequence": None}

    def _text(self, kind: str, text: str) -> bytes:
        begun = b"" if self._open == kind else self._begin(_block(kind, ""))
        return begun + self._part({"type": f"{kind}_delta", kind: text})

    def _tool_use(self, call: Mapping[str, Any], *, more: bool) -> bytes:
        written, begun = call["function"]["arguments"], b""
        if "id" in call:
            begun = self._begin({"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": {}})
            if not more and INVALID_JSON in (given := wrap_arguments(written)):
                written = json.dumps(given, ensure_ascii=False)
        part = self._part({"type": "input_json_delta", "partial_json": written}) if written else b""
        return begun + part + (b"" if more else self._end())

    def _begin(self, block: Mapping[str, Any]) -> bytes:
        ended = self._end()
        self._open = block["type"]
        self._blocks += 1
        return ended + _event({"type": "content_block_start", "index": self._blocks - 1, "content_block": block})

    def _part(self, part: Mapping[str, Any]) -> bytes:
        return _event({"type": "content_block_delta", "index": self._blocks - 1, "delta": part})

    def _end(self) -> bytes:
        kind, self._open = self._open, None
        if kind is None:
            return b""
        signed = self._part({"type": "signature_delta", "signature": UNSIGNED}) if kind == "thinking" else b""
        return signed + _event({"type": "content_block_stop", "index": self._blocks - 1})


def read_anthropic_key(headers: Headers) -> str:
    """Return the key of a request; empty if it has none."""
    key = next((value for name, value in headers if name == b"x-api-key"), b"")
    return key.decode("latin-1").strip() or read_bearer(headers)


def error_body(error: ApiError) -> Mapping[str, Any]:
    """Return the JSON body of a refusal."""
    # Agents detect an overlong conversation by these words: this shape has no field for a code.
    full = "prompt is too long: " if error.code == "context_length_exceeded" else ""
    kind = TYPES.get(error.status, "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": f"{full}{error.message}"}}


def usage(counted: Answer | Delta) -> Mapping[str, int]:
    """Count tokens as Anthropic does: cached ones are not part of the input. A delta has no output to count yet."""
    return {
        "input_tokens": counted.prompt_tokens - counted.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": counted.cached_tokens,
        "output_tokens": counted.completion_tokens if isinstance(counted, Answer) else 0,
    }


def describe_model(name: str) -> Mapping[str, Any]:
    """Return a model as Anthropic lists it."""
    return {"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"}


def list_models(name: str) -> Mapping[str, Any]:
    """Return the list of the one model."""
    return {"data": [describe_model(name)], "has_more": False, "first_id": name, "last_id": name}


ANTHROPIC_MESSAGES = WireApi(
    routes=(
        GenerationRoute("/v1/messages", messages_request),
        CountRoute("/v1/messages/count_tokens", partial(messages_request, counting=True), lambda count: {"input_tokens": count}),
        ModelRoute("/v1/models", list_models),
        ModelRoute("/v1/models/{model}", describe_model),
    ),
    make_writer=lambda request, id_, model: MessageWriter(id=f"msg_{id_}", model=model),
    read_key=read_anthropic_key,
    format_error=error_body,
)
"""The API of Anthropic's SDK and of agents written for it."""


def _describe_end(answer: Answer) -> dict[str, Any]:
    if answer.finish_reason == "stop" and answer.stop_string is not None:
        return {"stop_reason": "stop_sequence", "stop_sequence": answer.stop_string}
    return {"stop_reason": STOP_REASONS[answer.finish_reason], "stop_sequence": None}


def _content(reply: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if reply.get("reasoning_content"):
        yield {**_block("thinking", reply["reasoning_content"]), "signature": UNSIGNED}
    if reply.get("content") or not reply.get("tool_calls"):
        # An empty answer is a text too, which clients read without asking whether it is there.
        yield _block("text", reply.get("content") or "")
    for call in reply.get("tool_calls") or ():
        function = call["function"]
        yield {"type": "tool_use", "id": call["id"], "name": function["name"], "input": wrap_arguments(function["arguments"])}


def _block(kind: str, text: str) -> dict[str, Any]:
    return {"type": kind, kind: text, **({"signature": ""} if kind == "thinking" else {})}


def _event(body: Mapping[str, Any]) -> bytes:
    return encode_event(body, body["type"])
