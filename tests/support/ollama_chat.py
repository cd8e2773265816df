"""`POST /api/chat`, Ollama's API, as a third party would write it: a wire API that streams unless a body says otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from attrs import field, frozen

from astuner.model.gateway.wire_apis import (
    Answer,
    ApiError,
    ChatRequest,
    Delta,
    GenerationRoute,
    ModelRoute,
    Normalise,
    WireApi,
    bad_request,
    chat_request,
    encode_json,
    read_flag,
    read_integer,
    read_list,
    read_object,
    read_strings,
    unwrap_arguments,
    wrap_arguments,
)


def read_chat(body: Mapping[str, Any], read_messages: Normalise) -> ChatRequest:
    """Read a body; raises ApiError (400) that names the reason and the field."""
    if body.get("format") not in (None, "", "json"):
        raise bad_request("'format' is not served with a schema.", "format")
    options = read_object(body, "options")
    chat: dict[str, Any] = {
        **{name: options[name] for name in ("seed", "temperature", "top_p", "top_k") if options.get(name) is not None},
        "messages": list(_read_messages(read_list(body, "messages"))),
        "tools": read_list(body, "tools"),
        "response_format": {"type": "json_object"} if body.get("format") == "json" else None,
        "max_tokens": read_integer(options, "num_predict", 1, None),
        "stop": list(read_strings(options, "stop")),
        "stream": read_flag(body, "stream", True),
    }
    return chat_request({name: value for name, value in chat.items() if value is not None}, read_messages)


def _read_messages(messages: list[Any]) -> Iterator[Any]:
    """Yield the messages; calls have no ids in this API, so a result belongs to the first call that waits for one."""
    waiting: list[str] = []
    for place, message in enumerate(messages):
        if not isinstance(message, dict):
            raise bad_request(f"messages[{place}] must be an object.", f"messages[{place}]")
        if message.get("role") == "tool":
            yield {"role": "tool", "content": message.get("content"), "tool_call_id": waiting.pop(0) if waiting else "none"}
            continue
        calls = [_read_call(call, f"call_{place}_{number}") for number, call in enumerate(read_list(message, "tool_calls"))]
        waiting += [call["id"] for call in calls]
        yield {**message, "tool_calls": calls} if calls else message


def _read_call(call: Any, call_id: str) -> Mapping[str, Any]:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise bad_request("a tool call needs a function.", "messages")
    named = {"name": function.get("name"), "arguments": unwrap_arguments(read_object(function, "arguments"))}
    return {"id": call_id, "type": "function", "function": named}


@frozen(kw_only=True, eq=False)
class ChatWriter:
    """Writes one answer: an object, or one object per line."""

    model: str
    created: str = field(factory=lambda: datetime.now(UTC).isoformat())

    def write_whole(self, answers: Sequence[Answer]) -> bytes:
        """Return the body of a response that is not streamed."""
        return encode_json(self._end(answers[0], _write_message(answers[0].reply)))

    def write_opening(self) -> bytes:
        """Return nothing: a stream begins with its first part."""
        return b""

    def write_delta(self, delta: Delta) -> bytes:
        """Return a line with a part of the text, or with a call."""
        message = _write_message(delta.whole_fields)
        return self._line(message) if message["content"] or "tool_calls" in message else b""

    def write_done(self, choice: int, answer: Answer) -> bytes:
        """Return nothing: there is one choice, whose end is that of the stream."""
        return b""

    def write_closing(self, answers: Sequence[Answer]) -> bytes:
        """Return the last line, with the counts."""
        return encode_json(self._end(answers[0], {"role": "assistant", "content": ""})) + b"\n"

    def write_failure(self, error: ApiError) -> bytes:
        """Return the error as a line."""
        return encode_json(format_error(error)) + b"\n"

    def _line(self, message: Mapping[str, Any]) -> bytes:
        return encode_json({"model": self.model, "created_at": self.created, "message": message, "done": False}) + b"\n"

    def _end(self, answer: Answer, message: Mapping[str, Any]) -> Mapping[str, Any]:
        known = {"model": self.model, "created_at": self.created, "message": message, "done": True}
        reason = "length" if answer.finish_reason == "length" else "stop"
        counts = {"prompt_eval_count": answer.prompt_tokens, "eval_count": answer.completion_tokens}
        return {**known, "done_reason": reason, **counts}


def _write_message(fields: Mapping[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": fields.get("content") or ""}
    if fields.get("tool_calls"):
        functions = [call["function"] for call in fields["tool_calls"]]
        named = [{"name": function["name"], "arguments": wrap_arguments(function["arguments"])} for function in functions]
        message["tool_calls"] = [{"function": function} for function in named]
    return message


def format_error(error: ApiError) -> Mapping[str, Any]:
    """Return the JSON body of a refusal."""
    return {"error": error.message}


OLLAMA_CHAT = WireApi(
    routes=(
        GenerationRoute("/api/chat", read_chat),
        ModelRoute("/api/tags", lambda name: {"models": [{"name": name, "model": name}]}),
    ),
    make_writer=lambda request, id_, model: ChatWriter(model=model),
    stream_type="application/x-ndjson",
    format_error=format_error,
)
"""The API that programs made for local models speak."""
