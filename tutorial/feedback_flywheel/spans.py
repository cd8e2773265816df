"""Spans in OpenTelemetry's JSON, without its SDK. An agent that uses the SDK needs none of this."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class Recording:
    """The spans of one turn. A recording that is not sent costs almost nothing."""

    def __init__(self, conversation: str | None = None) -> None:
        self.trace_id = secrets.token_hex(16)
        self._conversation = conversation
        self._open: list[Span] = []
        self._ended: list[Span] = []

    @contextmanager
    def span(self, name: str, operation: str, **attributes: str) -> Iterator[Span]:
        """Open a span below the current one, and end it with the block."""
        more = {"gen_ai.conversation.id": self._conversation} if self._conversation else {}
        parent = self._open[-1].span_id if self._open else None
        span = Span(self.trace_id, parent, name, {"gen_ai.operation.name": operation, **more, **attributes})
        self._open.append(span)
        try:
            yield span
        except BaseException:
            span.failed = True
            raise
        finally:
            self._open.pop()
            span.end_ns = time.time_ns()
            self._ended.append(span)

    def request(self) -> Mapping[str, Any]:
        """Return the body of a request to `/v1/traces`."""
        scope = {"scope": {"name": "feedback_flywheel"}, "spans": [span.as_otlp() for span in self._ended]}
        name = {"key": "service.name", "value": {"stringValue": "calculator"}}
        return {"resourceSpans": [{"resource": {"attributes": [name]}, "scopeSpans": [scope]}]}


class Span:
    """One span, with the attributes of OpenTelemetry's conventions for generative AI."""

    def __init__(self, trace_id: str, parent_id: str | None, name: str, attributes: Mapping[str, str]) -> None:
        self.trace_id, self.span_id, self.parent_id = trace_id, secrets.token_hex(8), parent_id
        self.name, self.attributes = name, dict(attributes)
        self.start_ns = self.end_ns = time.time_ns()
        self.failed = False

    def input(self, messages: list[dict[str, Any]]) -> None:
        """Record the input."""
        self.attributes["gen_ai.input.messages"] = json.dumps(messages)

    def output(self, message: dict[str, Any]) -> None:
        """Record the output."""
        self.attributes["gen_ai.output.messages"] = json.dumps([message])

    def as_otlp(self) -> Mapping[str, Any]:
        """Return the span in OTLP's JSON."""
        return {
            "traceId": self.trace_id,
            "spanId": self.span_id,
            **({"parentSpanId": self.parent_id} if self.parent_id else {}),
            "name": self.name,
            "kind": 1,
            "startTimeUnixNano": str(self.start_ns),
            "endTimeUnixNano": str(self.end_ns),
            "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in self.attributes.items()],
            "status": {"code": 2 if self.failed else 1},
        }
