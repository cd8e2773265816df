"""Admitting a request: the episode of its key, and its body, up to a limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from astuner.model.gateway.api_keys import Caller, read_key
from astuner.model.rendering.errors import ApiError

if TYPE_CHECKING:
    from astuner.model.gateway.recording.body_limit import BodyLimit
    from astuner.model.gateway.recording.recorder import EpisodeRecorder
    from astuner.model.http_server.hosts import Receive, Scope

FindRecorder = Callable[[str], "EpisodeRecorder | None"]
"""Returns the open episode with a secret."""


def authorise(find_recorder: FindRecorder, key: str) -> tuple[EpisodeRecorder, Caller]:
    """Find the episode and the agent of a key; raises ApiError (401)."""
    caller = read_key(key)
    recorder = find_recorder(caller.secret) if caller is not None else None
    if recorder is None or caller is None:
        text = "This API key belongs to no open episode. Keys come from the tuner of a workflow and end with its episode."
        raise ApiError(401, text, code="invalid_api_key", retry=False)
    return recorder, caller


async def read_body(scope: Scope, receive: Receive, limit: BodyLimit) -> bytes | bytearray:
    """Read a body within a limit; raises ApiError."""
    headers = dict(scope["headers"])
    encoding = headers.get(b"content-encoding", b"identity").decode("latin-1").strip().lower()
    if encoding != "identity":
        text = f"The body has the content-encoding {encoding[:40]!r}, which is not read here; send it uncompressed."
        raise ApiError(415, text, code="unsupported_content_encoding", retry=False)
    declared = headers.get(b"content-length", b"")
    # Python refuses to parse numbers with thousands of digits.
    more = not (declared.isdigit() and (len(declared) > 18 or int(declared) > limit.max_bytes))
    if not more:
        raise limit.make_error()
    body: bytes | bytearray = b""
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ApiError(400, "The client left before its request was complete.")
        part, more = message.get("body", b""), message.get("more_body", False)
        if not body:
            body = bytearray(part) if more else part
        else:
            body += part
        if len(body) > limit.max_bytes:
            raise limit.make_error()
    return body
