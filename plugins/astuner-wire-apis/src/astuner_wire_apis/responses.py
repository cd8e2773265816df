"""`POST /v1/responses`, OpenAI's API."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from attrs import define, field

from astuner.model.gateway.wire_apis import (
    Answer,
    ApiError,
    ChatRequest,
    Delta,
    GenerationRoute,
    KeptRoute,
    WireApi,
    encode_event,
    encode_json,
    rename_messages,
)
from astuner_wire_apis.responses_calls import KINDS, write_call
from astuner_wire_apis.responses_request import PREFIX, responses_request

ECHOED: Mapping[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": True,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}
"""Fields of the request that a response repeats, with their defaults."""

TEXTS = {"reasoning": "reasoning_text", "message": "output_text"}
"""The type of a text item's only part; its events are named after it."""

ITEM_PREFIXES: Mapping[str, str] = {"function_call": "fc", **{kind.item: kind.prefix for kind in KINDS.values()}}
"""Of the ids of calls, by the type of their items."""

STREAMED = {
    "function_call": ("arguments", "function_call_arguments"),
    "custom_tool_call": ("input", "custom_tool_call_input"),
}
"""The field of a call that is streamed in separate events, and their name."""


@define(kw_only=True, eq=False)
class ResponseWriter:
    """Writes one response: the same items, streamed or at once."""

    request: ChatRequest
    id: str
    """Unique to the response; its items share it."""
    model: str
    created: int = field(factory=lambda: int(time.time()))
    _items: list[dict[str, Any]] = field(factory=list, init=False)
    _open: dict[str, int] = field(factory=dict, init=False)
    """The unfinished text items, by type."""
    _texts: dict[int, list[str]] = field(factory=dict, init=False)
    """Their texts, by output index."""
    _logprobs: list[Mapping[str, Any]] = field(factory=list, init=False)
    _streamed: int = field(default=0, init=False)
    """Number of those that were streamed."""
    _in_pieces: bool = field(default=False, init=False)
    """Whether the arguments of the last item are still being streamed."""
    _events: int = field(default=0, init=False)
    _finished: Mapping[str, Any] | None = field(default=None, init=False)

    def write_kept(self) -> tuple[str, bytes] | None:
        """Return the id and the body of the response, unless it has failed or the client wants it forgotten."""
        if self._finished is None or not self._finished["store"]:
            return None
        return f"{PREFIX}{self.id}", encode_json(self._finished)

    def write_whole(self, answers: Sequence[Answer]) -> bytes:
        """Return the body of a response that is not streamed."""
        for _ in self._take(answers[0].reply):
            # Only the items matter here.
            pass
        for _ in self._end(answers[0]):
            pass
        self._finished = self._response(*_outcome(answers[0]), usage=usage(answers[0]))
        return encode_json(self._finished)

    def write_opening(self) -> bytes:
        """Return the events before the first item."""
        response = self._response("in_progress")
        return self._event("response.created", response=response) + self._event("response.in_progress", response=response)

    def write_delta(self, delta: Delta) -> bytes:
        """Return the events of the next part."""
        self._logprobs += delta.logprobs or ()
        call = next(iter(delta.fields.get("tool_calls") or ()), None)
        if call and delta.open and "id" in call:
            form = self.request.tool_forms.get(call["function"]["name"])
            self._in_pieces = form is None or form.kind == "function"
        if call and self._in_pieces:
            return b"".join(self._stream_call(call, more=delta.open))
        return b"".join(self._take(delta.whole_fields))

    def write_done(self, choice: int, answer: Answer) -> bytes:
        """Return the ends of the items that are still open."""
        return b"".join(self._end(answer))

    def write_closing(self, answers: Sequence[Answer]) -> bytes:
        """Return the response as a whole."""
        status, details = _outcome(answers[0])
        self._finished = self._response(status, details, usage=usage(answers[0]))
        return self._event(f"response.{status}", response=self._finished)

    def write_failure(self, error: ApiError) -> bytes:
        """Return the response as a failure."""
        failure = {"code": error.code or "server_error", "message": error.message}
        return self._event("response.failed", response=self._response("failed", error=failure))

    def _take(self, fields: Mapping[str, Any]) -> Iterator[bytes]:
        """Add a part of the answer, in the form of a chat completion, to the items; yield its events."""
        if fields.get("reasoning_content"):
            yield from self._write_text("reasoning", fields["reasoning_content"])
        if fields.get("content"):
            yield from self._close("reasoning")
            yield from self._write_text("message", fields["content"])
        for call in fields.get("tool_calls") or ():
            yield from self._close("reasoning")
            yield from self._call(call)

    def _end(self, answer: Answer) -> Iterator[bytes]:
        self._logprobs += answer.logprobs or ()
        status = _outcome(answer)[0]
        yield from self._close("reasoning", status)
        if all(item["type"] == "reasoning" for item in self._items):
            # An empty answer is still an answer.
            yield from self._begin("message")
        yield from self._close("message", status)

    def _write_text(self, kind: str, text: str) -> Iterator[bytes]:
        # The text stays open during calls: text after them belongs to the same message, as in a chat completion.
        if kind not in self._open:
            yield from self._begin(kind)
        index = self._open[kind]
        self._texts[index].append(text)
        more: dict[str, Any] = {}
        if kind == "message":
            more["logprobs"] = _format_logprobs(self._logprobs[self._streamed :])
            self._streamed = len(self._logprobs)
        yield self._event(f"response.{TEXTS[kind]}.delta", **self._place(index), delta=text, **more)

    def _begin(self, kind: str) -> Iterator[bytes]:
        index = self._open[kind] = len(self._items)
        self._texts[index] = []
        named = {"id": f"rs_{self.id}_{index}", "type": kind, "summary": []}
        if kind == "message":
            named = {"id": f"msg_{self.id}_{index}", "type": kind, "role": "assistant"}
        self._items.append({**named, "content": [], "status": "in_progress"})
        yield self._event("response.output_item.added", output_index=index, item=self._items[index])
        yield self._event("response.content_part.added", **self._place(index), part=_part(kind, "", ()))

    def _close(self, kind: str, status: str = "completed") -> Iterator[bytes]:
        index = self._open.pop(kind, None)
        if index is None:
            return
        text = "".join(self._texts[index])
        logprobs = self._logprobs if kind == "message" else ()
        part = _part(kind, text, logprobs)
        self._items[index] = {**self._items[index], "content": [part], "status": status}
        more = {"logprobs": part["logprobs"]} if kind == "message" else {}
        yield self._event(f"response.{TEXTS[kind]}.done", **self._place(index), text=text, **more)
        yield self._event("response.content_part.done", **self._place(index), part=part)
        yield self._event("response.output_item.done", output_index=index, item=self._items[index])

    def _call(self, call: Mapping[str, Any]) -> Iterator[bytes]:
        made = write_call(self.request.tool_forms.get(call["function"]["name"]), call)
        yield self._begin_call(made)
        if made["type"] in STREAMED:
            yield self._add_to_call(made[STREAMED[made["type"]][0]])
        for number, command in enumerate(made["action"]["commands"] if made["type"] == "shell_call" else ()):
            place = {"output_index": len(self._items) - 1, "command_index": number}
            yield self._event("response.shell_call_command.added", **place, command="")
            yield self._event("response.shell_call_command.delta", **place, delta=command)
            yield self._event("response.shell_call_command.done", **place, command=command)
        yield from self._end_call()

    def _begin_call(self, made: Mapping[str, Any]) -> bytes:
        index = len(self._items)
        # A field that is streamed is empty at first.
        empty = {STREAMED[made["type"]][0]: ""} if made["type"] in STREAMED else {}
        item = {"id": f"{ITEM_PREFIXES[made['type']]}_{self.id}_{index}", **made, **empty, "status": "in_progress"}
        self._items.append(item)
        return self._event("response.output_item.added", output_index=index, item=item)

    def _add_to_call(self, text: str) -> bytes:
        item = self._items[-1]
        name, kind = STREAMED[item["type"]]
        self._items[-1] = {**item, name: item[name] + text}
        return self._event(f"response.{kind}.delta", item_id=item["id"], output_index=len(self._items) - 1, delta=text)

    def _end_call(self) -> Iterator[bytes]:
        index = len(self._items) - 1
        item = self._items[index] = {**self._items[index], "status": "completed"}
        if item["type"] in STREAMED:
            name, kind = STREAMED[item["type"]]
            named = {"name": item["name"]} if kind == "function_call_arguments" else {}
            yield self._event(f"response.{kind}.done", item_id=item["id"], output_index=index, **named, **{name: item[name]})
        yield self._event("response.output_item.done", output_index=index, item=item)

    def _stream_call(self, call: Mapping[str, Any], *, more: bool) -> Iterator[bytes]:
        """Yield the events of a part of a function's call; other calls come whole, since their items depend on the arguments."""
        if "id" in call:
            yield from self._close("reasoning")
            empty = {**call, "function": {**call["function"], "arguments": ""}}
            yield self._begin_call(write_call(self.request.tool_forms.get(call["function"]["name"]), empty))
        if call["function"]["arguments"]:
            yield self._add_to_call(call["function"]["arguments"])
        self._in_pieces = more
        if not more:
            yield from self._end_call()

    def _place(self, index: int) -> dict[str, Any]:
        return {"item_id": self._items[index]["id"], "output_index": index, "content_index": 0}

    def _event(self, kind: str, **fields: Any) -> bytes:
        number, self._events = self._events, self._events + 1
        return encode_event({"type": kind, "sequence_number": number, **fields}, kind)

    def _response(
        self,
        status: str,
        details: Mapping[str, Any] | None = None,
        *,
        error: Mapping[str, Any] | None = None,
        usage: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        sent = {name: self.request.sent.get(name) for name in ECHOED}
        return {
            "id": f"{PREFIX}{self.id}",
            "object": "response",
            "created_at": self.created,
            "status": status,
            "background": False,
            "error": error,
            "incomplete_details": details,
            "model": self.model,
            "output": self._items,
            "usage": usage,
            **{name: ECHOED[name] if value is None else value for name, value in sent.items()},
        }


RESPONSES = WireApi(
    routes=(GenerationRoute("/v1/responses", responses_request), KeptRoute("/v1/responses/{model}")),
    write_kept=ResponseWriter.write_kept,
    make_writer=lambda request, id_, model: ResponseWriter(request=request, id=id_, model=model),
    format_error=partial(rename_messages, name="input"),
)
"""The API of OpenAI's newer SDKs. The last responses of an episode can be asked for by their ids."""


def usage(answer: Answer) -> Mapping[str, Any]:
    """Count tokens as this API does."""
    return {
        "input_tokens": answer.prompt_tokens,
        "input_tokens_details": {"cached_tokens": answer.cached_tokens},
        "output_tokens": answer.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": answer.reasoning_tokens},
        "total_tokens": answer.prompt_tokens + answer.completion_tokens,
    }


def _outcome(answer: Answer) -> tuple[str, Mapping[str, Any] | None]:
    cut = answer.finish_reason == "length"
    return ("incomplete", {"reason": "max_output_tokens"}) if cut else ("completed", None)


def _part(kind: str, text: str, logprobs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    part = {"type": TEXTS[kind], "text": text}
    return {**part, "annotations": [], "logprobs": _format_logprobs(logprobs)} if kind == "message" else part


def _format_logprobs(logprobs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    def token(entry: Mapping[str, Any]) -> dict[str, Any]:
        return {"token": entry["token"], "logprob": entry["logprob"], "bytes": entry["bytes"] or []}

    return [{**token(entry), "top_logprobs": [token(other) for other in entry["top_logprobs"]]} for entry in logprobs]
