"""The HTTP session of a server, which remembers how the last request ended: OpenTelemetry's exporter returns only yes or no."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

_PROTOBUF = "application/x-protobuf"
_LONGEST_REASON = 200


class WatchedAdapter:
    """The transport of a session (`requests.Session.mount`)."""

    def __init__(self) -> None:
        from requests.adapters import HTTPAdapter

        self._inner = HTTPAdapter()
        self.problem: str | None = None
        """Why the last attempt failed, or what the server rejected of it; None if all was accepted."""
        self.is_failing = False
        """Whether the last attempt failed as a whole."""

    def send(self, request: Any, **options: Any) -> Any:
        """Send a request; raises what `requests` raises, and an error for a redirect, which would drop the content."""
        from requests import RequestException

        try:
            answer = self._inner.send(request, **options)
            content = answer.content
        except Exception as error:
            self.problem, self.is_failing = describe_error(error), True
            raise
        self.is_failing = answer.status_code >= 300
        if answer.status_code >= 400:
            self.problem = f"{answer.status_code} {answer.reason}: {_read_message(content)}"
        elif self.is_failing:
            self.problem = f"{answer.status_code}: redirects to {_hide_query(answer.headers.get('Location', ''))}"
            raise RequestException(self.problem)
        else:
            self.problem = _find_rejection(answer.headers.get("Content-Type", ""), content)
        return answer

    def close(self) -> None:
        """Close the connections."""
        self._inner.close()


def open_session(adapter: WatchedAdapter) -> Any:
    """Return a `requests.Session` that sends everything through the adapter."""
    from requests import Session

    # It asks only for `send` and `close`.
    session: Any = Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, adapter)
    return session


def describe_error(error: BaseException) -> str:
    """Return the innermost cause of an error of `requests`, in one line."""
    while (inner := getattr(error, "reason", None) or next(iter(error.args), None)) and isinstance(inner, BaseException):
        error = inner
    text = re.sub(r"<[^>]*>: |HTTPS?Connection(Pool)?\([^)]*\): ", "", str(error))
    return _cut(f"{type(error).__name__}: {text}")


def _find_rejection(content_type: str, content: bytes) -> str | None:
    if not content or not content_type.startswith(_PROTOBUF):
        return None
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    response = ExportTraceServiceResponse()
    try:
        response.ParseFromString(content)
    except DecodeError:
        return None
    partial = response.partial_success
    return _cut(f"{partial.rejected_spans} spans rejected: {partial.error_message}") if partial.rejected_spans else None


def _read_message(content: bytes) -> str:
    """Return what a refusal says: plain text, JSON, or a `Status` of protobuf, of which the text can be read."""
    text = content.decode("utf-8", "replace")
    return _cut(" ".join("".join(sign if sign.isprintable() else " " for sign in text).split()))


def _hide_query(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.hostname}{parts.path}" if parts.hostname else parts.path


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}…"
