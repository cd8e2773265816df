"""Bodies of OTLP/HTTP requests: decompressed within a limit, protobuf or JSON, with replies in the same encoding."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

from astuner.contract.errors import PluginError
from astuner.model.http_server import load_json
from astuner.shared.install_hints import install_command
from astuner_tracing.otlp import to_hex_id

PROTOBUF, JSON = "application/x-protobuf", "application/json"
_IDS = {"traceId": 16, "spanId": 8, "parentSpanId": 8}
_WINDOWS = {"gzip": 31, "deflate": 47}
"""For zlib; 47 takes deflate with its header and without gzip's."""


class BadRequest(Exception):
    """A body that cannot be accepted, with the HTTP status of the reply."""

    def __init__(self, status: int, message: str) -> None:
        # A message may quote half a surrogate pair, which no reply can hold.
        super().__init__(message.encode("utf-8", "backslashreplace").decode())
        self.status = status


@frozen(kw_only=True)
class AcceptedSpans:
    """The part of a request that is stored."""

    document: Mapping[str, Any]
    """In OTLP's JSON: ids as lower-case hex."""
    spans: int
    rejected: int
    why: str
    """The reason for the first span that was rejected; empty when none was."""


def unpack(body: bytes, encoding: str, limit: int) -> bytes:
    """Undo the content encoding. Raises `BadRequest` beyond `limit` bytes, before more memory is taken."""
    if encoding in ("", "identity"):
        return body
    if encoding not in _WINDOWS:
        raise BadRequest(415, f"content encoding '{encoding}' is not understood: gzip, deflate or none")
    try:
        return _inflate(body, _WINDOWS[encoding], limit)
    except zlib.error as error:
        if encoding == "deflate":
            # Some clients send the bare stream.
            try:
                return _inflate(body, -15, limit)
            except zlib.error:
                pass
        raise BadRequest(400, f"the body is not valid {encoding}: {error}") from error


def _inflate(body: bytes, window: int, limit: int) -> bytes:
    unpacker = zlib.decompressobj(window)
    made = unpacker.decompress(body, limit + 1)
    if len(made) > limit:
        raise BadRequest(413, f"the body is larger than {limit} bytes when unpacked")
    if not unpacker.eof:
        raise BadRequest(400, "the packed body is cut off")
    return made


def parse_document(body: bytes, content_type: str) -> Mapping[str, Any]:
    """Return a request for traces in OTLP's JSON. Raises `BadRequest`."""
    if content_type == PROTOBUF:
        return _from_protobuf(body)
    if content_type != JSON:
        raise BadRequest(415, f"content type '{content_type}' is not understood: {PROTOBUF} or {JSON}")
    try:
        value = load_json(body)
    except (ValueError, RecursionError) as error:
        raise BadRequest(400, f"the body is not valid JSON: {error}") from error
    if not isinstance(value, dict) or not isinstance(value.get("resourceSpans", []), list):
        raise BadRequest(400, "the body is not a traces request: it must be an object with a list resourceSpans")
    return {"resourceSpans": value.get("resourceSpans", [])}


def accept(document: Mapping[str, Any]) -> AcceptedSpans:
    """Remove unusable spans: those without valid ids, or in another shape."""
    spans, kept = 0, []
    reasons: list[str] = []
    for resource in _objects(document, "resourceSpans", reasons):
        scopes = []
        for scope in _objects(resource, "scopeSpans", reasons):
            good = []
            for span in _list(scope, "spans"):
                why = _find_fault(span)
                if why is None:
                    good.append({**span, **_hex_ids(span)})
                else:
                    reasons.append(why)
            spans += len(good)
            scopes.append({**scope, "spans": good})
        if scopes:
            kept.append({**resource, "scopeSpans": scopes})
    return AcceptedSpans(document={"resourceSpans": kept}, spans=spans, rejected=len(reasons), why=reasons[0] if reasons else "")


def build_reply(content_type: str, rejected: int = 0, why: str = "") -> bytes:
    """Return the body of a successful reply, with what was rejected."""
    if content_type == JSON:
        partial = {"partialSuccess": {"rejectedSpans": str(rejected), "errorMessage": why}} if rejected else {}
        return json.dumps(partial).encode()
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    response = ExportTraceServiceResponse()
    if rejected:
        response.partial_success.rejected_spans = rejected
        response.partial_success.error_message = why
    return bytes(response.SerializeToString())


def build_refusal(content_type: str, message: str) -> bytes:
    """Return the body of a reply that refuses a request: a `google.rpc.Status` with a message."""
    if content_type == PROTOBUF:
        # The message of that type is field 2, a string; one field needs no library.
        text = message.encode()[:1000]
        return b"\x12" + _varint(len(text)) + text
    return json.dumps({"message": message}).encode()


def check_installed() -> None:
    """Raise `PluginError` if the library of OTLP's messages is missing."""
    try:
        import opentelemetry.proto.collector.trace.v1.trace_service_pb2  # noqa: F401 - asked for only
    except ImportError as error:
        raise PluginError(
            f"the collector needs the package opentelemetry-proto ({error}): {install_command('astuner-tracing')}"
        ) from error


def _from_protobuf(body: bytes) -> Mapping[str, Any]:
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = ExportTraceServiceRequest()
    try:
        request.ParseFromString(body)
    except (DecodeError, UnicodeDecodeError) as error:
        raise BadRequest(400, f"the body is not a valid traces request: {error}") from error
    made: dict[str, Any] = MessageToDict(request, use_integers_for_enums=True)
    return {"resourceSpans": made.get("resourceSpans", [])}


def _objects(value: Mapping[str, Any], name: str, reasons: list[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list, and count the other values."""
    for item in _list(value, name):
        if isinstance(item, Mapping):
            yield item
        else:
            # It counts as one span: its real number is unknown.
            reasons.append(f"each of {name} is an object")


def _find_fault(span: Any) -> str | None:
    if not isinstance(span, Mapping):
        return "a span is an object"
    for name in ("traceId", "spanId"):
        if to_hex_id(span.get(name), _IDS[name]) is None:
            return f"span {str(span.get('name'))[:60]!r} has no valid {name}"
    return None


def _hex_ids(span: Mapping[str, Any]) -> dict[str, Any]:
    """Return ids as in OTLP's JSON. Protobuf's own JSON has them in base64."""
    found: dict[str, Any] = {name: to_hex_id(span.get(name), size) for name, size in _IDS.items() if span.get(name)}
    links = [link for link in _list(span, "links") if isinstance(link, Mapping)]
    if links:
        ids = [{name: to_hex_id(link.get(name), _IDS[name]) for name in ("traceId", "spanId")} for link in links]
        found["links"] = [{**link, **one} for link, one in zip(links, ids, strict=True)]
    return {name: value for name, value in found.items() if value is not None}


def _list(value: Any, name: str) -> list[Any]:
    found = value.get(name) if isinstance(value, Mapping) else None
    return found if isinstance(found, list) else []


def _varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])
