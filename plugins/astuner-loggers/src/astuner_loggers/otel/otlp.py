"""Sends spans as OTLP over HTTP, with the exporter of OpenTelemetry's SDK."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from astuner_loggers.otel.session import WatchedAdapter, describe_error, open_session

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

_EXPORTER_LOG = "opentelemetry.exporter.otlp.proto.http.trace_exporter"


ABANDONED = "it was given up before the server was asked"
"""What `send` returns for spans whose turn came after `close`; the reason is why it was closed."""


class SpanExport:
    """One server that takes traces."""

    def __init__(self, address: str, headers: Mapping[str, str], timeout_s: float) -> None:
        from opentelemetry.exporter.otlp.proto.http import Compression
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        self.address = address
        self._adapter = WatchedAdapter()
        # Not every server takes gzip, which a variable may ask for.
        self._exporter: Any = OTLPSpanExporter(
            endpoint=address,
            headers=dict(headers),
            timeout=timeout_s,
            compression=Compression.NoCompression,
            session=open_session(self._adapter),
        )
        self._is_closed = False

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt failed; the exporter may be trying again."""
        return self._adapter.is_failing

    def send(self, spans: Sequence[ReadableSpan]) -> str | None:
        """Send spans, several times if the server is busy; return why they, or some of them, were not accepted."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        self._adapter.problem = None
        with _Quiet():
            try:
                result = self._exporter.export(spans)
            except Exception as error:  # noqa: BLE001 - older exporters raise what the connection raised; reported with the count
                return describe_error(error)
        if self._adapter.problem is not None:
            return self._adapter.problem
        if result is SpanExportResult.SUCCESS:
            return None
        return ABANDONED if self._is_closed else "the spans cannot be encoded"

    def close(self) -> None:
        """Give up what is being tried again, and close the connections."""
        self._is_closed = True
        with _Quiet():
            self._exporter.shutdown()


class _Quiet:
    """Keeps what the exporter logs in this thread off the terminal: each loss is counted, and reported once."""

    def __enter__(self) -> None:
        self._thread = threading.get_ident()
        logging.getLogger(_EXPORTER_LOG).addFilter(self._filter)

    def __exit__(self, *_: object) -> None:
        logging.getLogger(_EXPORTER_LOG).removeFilter(self._filter)

    def _filter(self, record: logging.LogRecord) -> bool:
        return record.thread != self._thread
