"""Drafts as the spans of OpenTelemetry's SDK, each small enough for one request."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from astuner_loggers.otel.drafts import Plain, SpanDraft, TraceDraft
from astuner_loggers.otel.identity import derive_span_id, derive_trace_id
from astuner_loggers.otel.messages import shorten_texts

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

SCOPE = "astuner"
_LONGEST_TEXTS = (None, 200_000, 20_000, 2_000, 200)
"""In characters. Of a span that is too large, texts are cut at the first of these at which it fits."""
_ENVELOPE = 4096
"""Bytes of a request that do not belong to a span."""


@frozen(kw_only=True, eq=False)
class EncodedSpan:
    """A span, and the bytes that it adds to a request."""

    span: ReadableSpan
    size: int


class SpanEncoder:
    """Encodes the spans of a run."""

    def __init__(self, run_id: str, resource: Mapping[str, str], most_bytes: int) -> None:
        """`resource` describes the run to servers; a request has at most `most_bytes`."""
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self._run_id, self._room = run_id, most_bytes - _ENVELOPE
        self._resource = Resource(resource)
        self._scope = InstrumentationScope(SCOPE, version("astuner-loggers"))

    def encode(self, trace: TraceDraft, ended_ns: int) -> Iterator[EncodedSpan]:
        """Yield the spans of an episode that ended at `ended_ns`, nanoseconds since 1970."""
        started_ns = ended_ns - round(trace.duration_s * 1e9)
        trace_id = derive_trace_id(self._run_id, trace.episode_id)
        for draft in trace.spans:
            yield self._fit(draft, trace_id, started_ns)

    def _fit(self, draft: SpanDraft, trace_id: int, started_ns: int) -> EncodedSpan:
        for longest in _LONGEST_TEXTS:
            found = self._measure(_shorten(draft, longest), trace_id, started_ns)
            if found.size <= self._room:
                return found
        notice = {"astuner.shortened": f"{', '.join(draft.documents)}: left out, too large for one request"}
        bare = _shorten(evolve(draft, documents={}, events=(), attributes={**draft.attributes, **notice}), _LONGEST_TEXTS[-1])
        return self._measure(bare, trace_id, started_ns)

    def _measure(self, draft: SpanDraft, trace_id: int, started_ns: int) -> EncodedSpan:
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

        span = self._make_span(draft, trace_id, started_ns)
        return EncodedSpan(span=span, size=encode_spans([span]).ByteSize())

    def _make_span(self, draft: SpanDraft, trace_id: int, started_ns: int) -> ReadableSpan:
        from opentelemetry.sdk.trace import Event, ReadableSpan
        from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

        def locate(key: str) -> SpanContext:
            return SpanContext(
                trace_id, derive_span_id(trace_id, key), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED)
            )

        start, end = (started_ns + round(seconds * 1e9) for seconds in (draft.start_s, draft.end_s))
        return ReadableSpan(
            name=draft.name,
            context=locate(draft.key),
            parent=locate("") if draft.key else None,
            resource=self._resource,
            attributes={**draft.attributes, **{name: _write(value) for name, value in draft.documents.items()}},
            events=[Event(event.name, event.attributes, end) for event in draft.events],
            kind=SpanKind.CLIENT if draft.is_client else SpanKind.INTERNAL,
            status=Status(StatusCode.OK) if draft.error is None else Status(StatusCode.ERROR, draft.error),
            start_time=start,
            end_time=end,
            instrumentation_scope=self._scope,
        )


def _shorten(draft: SpanDraft, longest: int | None) -> SpanDraft:
    if longest is None:
        return draft
    notice: dict[str, Plain] = {"astuner.shortened": f"texts over {longest:,} characters are cut: the span would be too large"}
    return evolve(
        draft,
        attributes={**notice, **shorten_texts(draft.attributes, longest)},
        documents=shorten_texts(draft.documents, longest),
        events=tuple(evolve(event, attributes=shorten_texts(event.attributes, longest)) for event in draft.events),
        error=shorten_texts(draft.error, longest),
    )


def _write(value: Any) -> str:
    """Return a document as text: the conventions accept JSON, and servers read it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
