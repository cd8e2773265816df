"""OpenTelemetry's JSON: a document of an OTLP file or request, as spans and annotations."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any

from astuner_tracing.annotations import EVALUATION, parse_annotation
from astuner_tracing.records import ODD, Annotation, BadRecord, Record, Span

_NO_ID = ("", "0" * 16, "0" * 32)


def is_document(value: Any) -> bool:
    """Whether a JSON value is an OTLP document, of traces or of logs."""
    return isinstance(value, Mapping) and any(_get(value, *names) is not None for names in (_SPANS, _LOGS))


def read_records(document: Mapping[str, Any], source: str, place: str) -> Iterator[Record]:
    """Yield the spans of a document, and the annotations among its log records; other log records are skipped."""
    for resource in _objects(_get(document, *_SPANS)):
        for scope in _objects(_get(resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans")):
            for number, span in enumerate(_list(scope.get("spans"))):
                try:
                    yield parse_span(span, source)
                except ODD as error:
                    yield BadRecord(place=f"{place} span {number}", reason=str(error))
    for resource in _objects(_get(document, *_LOGS)):
        for scope in _objects(_get(resource, "scopeLogs", "scope_logs")):
            for number, record in enumerate(_objects(_get(scope, "logRecords", "log_records"))):
                try:
                    found = _annotation(record)
                except ODD as error:
                    yield BadRecord(place=f"{place} log record {number}", reason=str(error))
                    continue
                if found is not None:
                    yield found


def parse_span(span: Any, source: str) -> Span:
    """Read one span. Raises `ValueError` for one without ids or in another shape."""
    if not isinstance(span, Mapping):
        raise ValueError(f"a span is an object, not {str(span)[:40]!r}")
    trace_id, span_id = to_hex_id(_get(span, "traceId", "trace_id"), 16), to_hex_id(_get(span, "spanId", "span_id"), 8)
    if trace_id is None or span_id is None:
        raise ValueError(f"span {str(span.get('name'))[:60]!r} has no trace id and span id of OpenTelemetry")
    status = span.get("status")
    return Span(
        source=source,
        trace_id=trace_id,
        span_id=span_id,
        parent_id=to_hex_id(_get(span, "parentSpanId", "parent_span_id"), 8),
        name=str(span.get("name", "")),
        start_ns=_integer(_get(span, "startTimeUnixNano", "start_time_unix_nano")),
        end_ns=_integer(_get(span, "endTimeUnixNano", "end_time_unix_nano")),
        attributes=parse_attributes(span.get("attributes")),
        events=tuple(
            {"name": str(event.get("name", "")), "attributes": parse_attributes(event.get("attributes"))}
            for event in _objects(span.get("events"))
        ),
        failed=isinstance(status, Mapping) and status.get("code") in (2, "2", "STATUS_CODE_ERROR", "ERROR"),
    )


def parse_attributes(pairs: Any) -> dict[str, Any]:
    """Return attributes as plain values: from OTLP's list of keys and values, or from an object."""
    if isinstance(pairs, Mapping):
        return dict(pairs)
    return {str(pair["key"]): to_plain(pair.get("value")) for pair in _objects(pairs) if "key" in pair}


def to_plain(value: Any) -> Any:
    """Return OTLP's `AnyValue` as a plain JSON value."""
    if not isinstance(value, Mapping) or not value:
        return None
    kind, inner = next(iter(value.items()))
    match kind:
        case "intValue" | "int_value":
            return _integer(inner)
        case "arrayValue" | "array_value":
            return [to_plain(item) for item in _objects(inner.get("values") if isinstance(inner, Mapping) else None)]
        case "kvlistValue" | "kvlist_value":
            return parse_attributes(inner.get("values") if isinstance(inner, Mapping) else None)
    return inner


def to_hex_id(value: Any, size: int) -> str | None:
    """Return an id of this length as lower-case hex, also from base64 (as in protobuf's JSON); None if it is not one."""
    if not isinstance(value, str) or value in _NO_ID:
        return None
    text = value.removeprefix("0x")
    try:
        raw = bytes.fromhex(text) if len(text) == 2 * size else base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return None
    return raw.hex() if len(raw) == size and any(raw) else None


def _annotation(record: Mapping[str, Any]) -> Annotation | None:
    attributes = parse_attributes(record.get("attributes"))
    if (_get(record, "eventName", "event_name") or attributes.get("event.name")) != EVALUATION:
        return None
    return parse_annotation(
        attributes,
        trace_id=to_hex_id(_get(record, "traceId", "trace_id"), 16),
        span_id=to_hex_id(_get(record, "spanId", "span_id"), 8),
        time_ns=_integer(_get(record, "timeUnixNano", "time_unix_nano")),
    )


_SPANS = ("resourceSpans", "resource_spans")
_LOGS = ("resourceLogs", "resource_logs")


def _get(value: Mapping[str, Any], *names: str) -> Any:
    return next((value[name] for name in names if value.get(name) is not None), None)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    return (item for item in _list(value) if isinstance(item, Mapping))


def _integer(value: Any) -> int:
    try:
        return int(value or 0)
    except (TypeError, ValueError, OverflowError):
        return 0
