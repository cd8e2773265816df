"""What the gateway's HTTP APIs have in common."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

from attrs import frozen

if TYPE_CHECKING:
    from astuner.contract.schema import Message
    from astuner.model.gateway.recording.choice_events import Answer, Delta
    from astuner.model.gateway.recording.request import ChatRequest
    from astuner.model.rendering.errors import ApiError

# Made once: `json.dumps` makes an encoder per call.
_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

Headers = Sequence[tuple[bytes, bytes]]
"""Names in lower case, as in ASGI."""

Normalise = Callable[[Any], "tuple[Message, ...]"]
"""Normalises the messages of a body, as `messages.normalise` does."""


class Writer(Protocol):
    """Writes one response.

    Either `write_whole`, or a stream: `write_opening`, `write_delta` and `write_done` as they happen, `write_closing`.
    """

    def write_whole(self, answers: Sequence[Answer]) -> bytes:
        """Return the body of a response that is not streamed; the answers are ordered by choice."""

    def write_opening(self) -> bytes:
        """Return the beginning of a stream."""

    def write_delta(self, delta: Delta) -> bytes:
        """Return the events for the next part of a choice."""

    def write_done(self, choice: int, answer: Answer) -> bytes:
        """Return the events for the end of a choice."""

    def write_closing(self, answers: Sequence[Answer]) -> bytes:
        """Return the end of a stream, once every choice is done; the answers are ordered by choice."""

    def write_failure(self, error: ApiError) -> bytes:
        """Return the events for a failure after the stream has begun; nothing follows them."""


def read_bearer(headers: Headers) -> str:
    """Return the token of `Authorization: Bearer …`; empty when there is none."""
    value = next((value for name, value in headers if name == b"authorization"), b"")
    scheme, _, key = value.decode("latin-1").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""


def rename_messages(error: ApiError, name: str) -> Mapping[str, Any]:
    """Return OpenAI's error object, for an API that calls the messages by another name."""
    body = error.body
    if (error.param or "").partition("[")[0] == "messages":
        body["error"]["param"] = name
    return body


def encode_json(body: Mapping[str, Any]) -> bytes:
    """Encode a body; lone surrogates, which a model may sample, are kept."""
    return _ENCODE(body).encode("utf-8", "surrogatepass")


def encode_event(body: Mapping[str, Any], name: str | None = None) -> bytes:
    """Return a server-sent event, with a name in APIs that use names."""
    head = b"" if name is None else f"event: {name}\n".encode()
    return head + b"data: " + encode_json(body) + b"\n\n"


def _find_no_key(query: bytes) -> str:
    return ""


@frozen(kw_only=True)
class Dialect:
    """One API: a route, how its bodies are read, and how answers and errors are written."""

    path: str
    """Path of the POST route: `/v1/…`. `{model}` in it is the name of the model, which a body has in its place otherwise."""
    read: Callable[[Mapping[str, Any], Normalise], ChatRequest]
    """Reads a parsed body, normalising its messages; raises ApiError (400) with the reason and the parameter."""
    make_writer: Callable[[ChatRequest, str, str], Writer]
    """Makes the writer of the response to a request, from an id that is unique to it and the served model's name."""
    read_key: Callable[[Headers], str] = read_bearer
    """Returns the API key of a request's headers; empty if they have none."""
    read_query_key: Callable[[bytes], str] = _find_no_key
    """Returns the API key of a request's query, for APIs that allow it there; empty if it has none."""
    format_error: Callable[[ApiError], Mapping[str, Any]] = attrgetter("body")
    """Returns the JSON body of a refusal, in the shape that the API's clients raise."""
