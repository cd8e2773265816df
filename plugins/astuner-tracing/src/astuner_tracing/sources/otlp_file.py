"""A file of OTLP documents: JSON lines as the collector and OpenTelemetry's file exporter write them, plain or gzipped."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

from astuner.contract.errors import DataError
from astuner_tracing.otlp import is_document, read_records
from astuner_tracing.records import ODD, BadRecord, Record
from astuner_tracing.sources.json_spans import parse_json_span

_CUT = (EOFError, zlib.error, gzip.BadGzipFile)
LONGEST_LINE = 64 << 20
"""A longer line is skipped, and counted."""
_ENVELOPES = ("d", "data", "body", "payload")
"""Where a recording proxy puts the document."""


class OtlpFile:
    """Streams a file of OTLP documents, one per line; a file with one document is read whole."""

    kind = "OTLP file"

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.path = name, path
        self.inode: tuple[int, int] | None = None

    def records(self) -> Iterator[Record]:
        """Yield what is in the file, line by line."""
        try:
            with self.path.open("rb") as raw, self._unpack(raw) as file:
                if self._is_one_document(file):
                    yield from self._read_value(json.load(file), self.name)
                    return
                yield from self._lines(file)
        except OSError as error:
            raise DataError(f"source '{self.name}': {self.path} cannot be read to its end: {error}") from error

    def _unpack(self, raw: BinaryIO) -> BinaryIO:
        status = os.fstat(raw.fileno())
        self.inode = (status.st_dev, status.st_ino)
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        return cast("BinaryIO", gzip.GzipFile(fileobj=raw, mode="rb")) if packed else raw

    def _is_one_document(self, file: BinaryIO) -> bool:
        """Whether the whole file is one JSON document; rewinds it."""
        try:
            first = file.readline(LONGEST_LINE)
            # Each line of JSON lines is valid JSON; the first line of an indented document is not.
            if first.strip() not in (b"{", b"["):
                return False
            file.seek(0)
            whole = file.read(LONGEST_LINE + 1)
            json.loads(whole)
            return len(whole) <= LONGEST_LINE
        except (ValueError, RecursionError, *_CUT):
            return False
        finally:
            file.seek(0)

    def _lines(self, file: BinaryIO) -> Iterator[Record]:
        number = 0
        while True:
            number += 1
            place = f"{self.name}:{number}"
            try:
                line = file.readline(LONGEST_LINE)
                too_long = len(line) == LONGEST_LINE and not line.endswith(b"\n")
                while too_long and (more := file.readline(LONGEST_LINE)) and not more.endswith(b"\n"):
                    pass
            except _CUT as error:
                # The complete part has been read; a log that is still being compressed looks like this too.
                yield BadRecord(place=place, reason=f"the packed file is cut off or broken from here on ({type(error).__name__})")
                return
            if not line:
                return
            if too_long:
                yield BadRecord(place=place, reason=f"the line is longer than {LONGEST_LINE >> 20} MiB")
                continue
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                cut = "" if line.endswith(b"\n") else " (the line is not finished: whoever wrote it was stopped)"
                yield BadRecord(place=place, reason=f"not valid JSON{cut}")
                continue
            yield from self._read_value(value, place)

    def _read_value(self, value: Any, place: str) -> Iterator[Record]:
        if isinstance(value, list):
            for number, item in enumerate(value):
                yield from self._read_value(item, f"{place}[{number}]")
            return
        document = _document(value)
        if document is not None:
            yield from read_records(document, self.name, place)
        elif isinstance(value, Mapping) and isinstance(value.get("context"), Mapping):
            try:
                yield parse_json_span(value, self.name, place)
            except ODD as error:
                yield BadRecord(place=place, reason=f"a span in a shape that is not understood ({type(error).__name__})")
        else:
            yield BadRecord(place=place, reason="neither an OTLP document (resourceSpans, resourceLogs) nor a span")


def _document(value: Any) -> Mapping[str, Any] | None:
    if is_document(value):
        return cast("Mapping[str, Any]", value)
    if not isinstance(value, Mapping):
        return None
    return next((value[name] for name in _ENVELOPES if is_document(value.get(name))), None)
