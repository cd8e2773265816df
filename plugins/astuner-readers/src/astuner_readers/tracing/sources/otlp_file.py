"""A file of OTLP documents: JSON lines as the collector and OpenTelemetry's file exporter write them, plain or gzipped."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

from astuner.errors import DataError
from astuner_readers.tracing.otlp import is_document, records_of
from astuner_readers.tracing.records import Broken, Record
from astuner_readers.tracing.sources.json_spans import span_of_json

LONGEST_LINE = 64 << 20
"""A longer line is passed over, and counted."""
_ENVELOPES = ("d", "data", "body", "payload")
"""Where a proxy that records requests puts the document."""


class OtlpFile:
    """Streams a file of OTLP documents, one a line; a file that is one document is read whole."""

    kind = "OTLP file"

    def __init__(self, name: str, path: Path) -> None:
        self.name, self._path = name, path

    def records(self) -> Iterator[Record]:
        """Yield what is in the file, line by line."""
        try:
            with self._open() as file:
                if self._is_one_document(file):
                    yield from self._of(json.load(file), self.name)
                    return
                yield from self._lines(file)
        except (OSError, EOFError) as error:
            raise DataError(f"source '{self.name}': {self._path} cannot be read to its end: {error}") from error

    def _open(self) -> BinaryIO:
        with self._path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        return cast("BinaryIO", gzip.open(self._path, "rb")) if packed else self._path.open("rb")

    def _is_one_document(self, file: BinaryIO) -> bool:
        """Whether the file is JSON as a whole, over several lines; leaves it at its beginning."""
        try:
            first = file.readline(LONGEST_LINE)
            # A line of JSON lines is JSON by itself; the first of an indented document is not.
            if first.strip() not in (b"{", b"["):
                return False
            file.seek(0)
            whole = file.read(LONGEST_LINE + 1)
            json.loads(whole)
            return len(whole) <= LONGEST_LINE
        except ValueError:
            return False
        finally:
            file.seek(0)

    def _lines(self, file: BinaryIO) -> Iterator[Record]:
        number = 0
        while line := file.readline(LONGEST_LINE):
            number += 1
            place = f"{self.name}:{number}"
            if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
                while (more := file.readline(LONGEST_LINE)) and not more.endswith(b"\n"):
                    pass
                yield Broken(place=place, reason=f"the line is longer than {LONGEST_LINE >> 20} MiB")
                continue
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                cut = "" if line.endswith(b"\n") else " (the line is not finished: whoever wrote it was stopped)"
                yield Broken(place=place, reason=f"no JSON{cut}")
                continue
            yield from self._of(value, place)

    def _of(self, value: Any, place: str) -> Iterator[Record]:
        if isinstance(value, list):
            for number, item in enumerate(value):
                yield from self._of(item, f"{place}[{number}]")
            return
        document = _document(value)
        if document is not None:
            yield from records_of(document, self.name, place)
        elif isinstance(value, Mapping) and isinstance(value.get("context"), Mapping):
            yield span_of_json(value, self.name, place)
        else:
            yield Broken(place=place, reason="neither an OTLP document (resourceSpans, resourceLogs) nor a span")


def _document(value: Any) -> Mapping[str, Any] | None:
    if is_document(value):
        return cast("Mapping[str, Any]", value)
    if not isinstance(value, Mapping):
        return None
    return next((value[name] for name in _ENVELOPES if is_document(value.get(name))), None)
