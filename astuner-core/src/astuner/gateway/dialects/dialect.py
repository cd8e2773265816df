"""The protocol of the gateway's HTTP APIs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from astuner.gateway.recording.choice_events import Answer, Delta
    from astuner.gateway.recording.request import ChatRequest
    from astuner.rendering.errors import ApiError
    from astuner.schema import Message

Headers = Sequence[tuple[bytes, bytes]]
"""Names in lower case, as in ASGI."""

Normalise = Callable[[Any], "tuple[Message, ...]"]
"""Normalises the messages of a body, as `messages.normalise` does."""


class Dialect(Protocol):
    """One API: a route, how its bodies are read, and how answers and errors are written. Stateless."""

    path: str
    """Path of the POST route: `/v1/…`."""

    def key(self, headers: Headers) -> str:
        """Return the API key that a request came with; empty if it has none."""
        ...

    def read(self, raw: bytes, read_messages: Normalise) -> ChatRequest:
        """Parse a body, normalising messages with `read_messages`; raises ApiError (400) with the reason and the parameter."""
        ...

    def writer(self, request: ChatRequest, *, id_: str, model: str) -> Writer:
        """Return a writer of the response to one request; `id_` is unique to it, `model` is the served model's name."""
        ...

    def error(self, error: ApiError) -> Mapping[str, Any]:
        """Return the JSON body of a refusal, in the shape that the API's clients raise."""
        ...


class Writer(Protocol):
    """Writes one response.

    Either `write_whole`, or a stream: `write_opening`, `write_delta` and `write_done` as they happen, `write_closing`.
    """

    def write_whole(self, answers: Sequence[Answer]) -> bytes:
        """Return the body of a response that is not streamed; the answers are ordered by choice."""
        ...

    def write_opening(self) -> bytes:
        """Return the beginning of a stream."""
        ...

    def write_delta(self, delta: Delta) -> bytes:
        """Return the events for the next part of a choice."""
        ...

    def write_done(self, choice: int, answer: Answer) -> bytes:
        """Return the events for the end of a choice."""
        ...

    def write_closing(self, answers: Sequence[Answer]) -> bytes:
        """Return the end of a stream, once every choice is done; the answers are ordered by choice."""
        ...

    def write_failure(self, error: ApiError) -> bytes:
        """Return the events for a failure after the stream has begun; nothing follows them."""
        ...


def read_bearer(headers: Headers) -> str:
    """Return the token of `Authorization: Bearer …`; empty when there is none."""
    value = next((value for name, value in headers if name == b"authorization"), b"")
    scheme, _, key = value.decode("latin-1").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else ""
