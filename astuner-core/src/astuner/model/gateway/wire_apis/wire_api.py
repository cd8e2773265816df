"""A wire API: an HTTP API that agents speak, as routes of the gateway and as a component of the kind `wire_api`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

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
    """Return the token of `Authorization: Bearer …`, or of `api-key`, as Azure's clients send it; empty if there is none."""
    known = dict(headers)
    scheme, _, key = known.get(b"authorization", b"").decode("latin-1").partition(" ")
    return (key if scheme.lower() == "bearer" else known.get(b"api-key", b"").decode("latin-1")).strip()


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


@cache
def compile_path(path: str) -> re.Pattern[str]:
    """Return what matches the paths that a route's path stands for."""
    return re.compile("(?P<model>.+)".join(map(re.escape, path.split("{model}"))))


Read = Callable[[Mapping[str, Any], Normalise], "ChatRequest"]
"""Reads a parsed body, normalising its messages; raises ApiError (400) with the reason and the parameter."""


@frozen
class GenerationRoute:
    """The model answers a body that is posted."""

    method: ClassVar[str] = "POST"
    path: str
    """`{model}` in it is the name of the model, which a body has in its field `model` otherwise."""
    read: Read


@frozen
class CountRoute:
    """The tokens of a body that is posted are counted; nothing is generated or recorded."""

    method: ClassVar[str] = "POST"
    path: str
    read: Read
    write: Callable[[int], Mapping[str, Any]]
    """Returns the answer."""


@frozen
class ModelRoute:
    """What the API says of the served model. Several APIs may have one path: the first that finds its key answers."""

    method: ClassVar[str] = "GET"
    path: str
    """With `{model}`, any other name than the served one is refused (404)."""
    write: Callable[[str], Mapping[str, Any]]
    """Returns the answer for the model of this name."""


def _write_nothing(name: str) -> Mapping[str, Any]:
    return {}


@frozen
class KeptRoute(ModelRoute):
    """An earlier response of the episode, as `WireApi.write_kept` wrote it; `{model}` in its path is the response's id."""

    write: Callable[[str], Mapping[str, Any]] = _write_nothing


Route = GenerationRoute | CountRoute | ModelRoute


def _find_no_key(query: bytes) -> str:
    return ""


def _keep_nothing(writer: Writer) -> None:
    return None


@frozen(kw_only=True)
class WireApi:
    """One API: its routes, where a request has its key, and how answers and errors are written."""

    routes: Sequence[Route]
    make_writer: Callable[[ChatRequest, str, str], Writer]
    """Makes the writer of the response to a request, from an id that is unique to it and the served model's name."""
    stream_type: str = "text/event-stream; charset=utf-8"
    """The content type of a streamed response."""
    read_key: Callable[[Headers], str] = read_bearer
    """Returns the API key of a request's headers; empty if they have none."""
    read_query_key: Callable[[bytes], str] = _find_no_key
    """Returns the API key of a request's query, for APIs that allow it there; empty if it has none."""
    write_kept: Callable[[Any], tuple[str, bytes] | None] = _keep_nothing
    """Returns the id and the body of a finished response that a `KeptRoute` answers with; None keeps nothing."""
    format_error: Callable[[ApiError], Mapping[str, Any]] = attrgetter("body")
    """Returns the JSON body of a refusal, in the shape that the API's clients raise."""

    def find_key(self, scope: Mapping[str, Any]) -> str:
        """Return the API key of a request; empty if it has none."""
        return self.read_key(scope["headers"]) or self.read_query_key(scope["query_string"])
