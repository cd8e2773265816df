"""A span as Phoenix's API and OpenTelemetry's console exporter write it: ids in `context`, times as text."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from astuner_tracing.otlp import to_hex_id
from astuner_tracing.records import BadRecord, Span


def parse_json_span(value: Mapping[str, Any], source: str, place: str) -> Span | BadRecord:
    """Read one span."""
    context = value.get("context")
    context = context if isinstance(context, Mapping) else {}
    trace_id, span_id = to_hex_id(context.get("trace_id"), 16), to_hex_id(context.get("span_id"), 8)
    if trace_id is None or span_id is None:
        return BadRecord(place=place, reason=f"span {str(value.get('name'))[:60]!r} has no trace id and span id of OpenTelemetry")
    status = value.get("status")
    code = status.get("status_code") if isinstance(status, Mapping) else value.get("status_code")
    attributes, kind = value.get("attributes"), value.get("span_kind")
    named = {"openinference.span.kind": kind} if isinstance(kind, str) and kind.isupper() and kind != "UNKNOWN" else {}
    return Span(
        source=source,
        trace_id=trace_id,
        span_id=span_id,
        parent_id=to_hex_id(value.get("parent_id"), 8),
        name=str(value.get("name", "")),
        start_ns=to_nanoseconds(value.get("start_time")),
        end_ns=to_nanoseconds(value.get("end_time")),
        attributes={**named, **attributes} if isinstance(attributes, Mapping) else named,
        events=parse_events(value.get("events")),
        failed=str(code).rpartition(".")[2] == "ERROR",
    )


def parse_events(events: Any) -> tuple[Mapping[str, Any], ...]:
    """Return events with name and attributes."""
    found = (event for event in events if isinstance(event, Mapping)) if isinstance(events, list) else ()
    return tuple(
        {
            "name": str(event.get("name", "")),
            "attributes": dict(event["attributes"]) if isinstance(event.get("attributes"), Mapping) else {},
        }
        for event in found
    )


def to_nanoseconds(value: Any) -> int:
    """Return an ISO time, UTC by default, in nanoseconds since 1970; 0 for anything else."""
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return int(aware.timestamp()) * 10**9 + aware.microsecond * 1000
    except (ValueError, OverflowError):
        return 0
