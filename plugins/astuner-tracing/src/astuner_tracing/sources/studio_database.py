"""AgentScope Studio's database: the table `span_table`, up to version 1.0.9."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from astuner.contract.errors import DataError
from astuner_tracing.records import ODD, BadRecord, Record, Span
from astuner_tracing.sources.json_spans import parse_events
from astuner_tracing.sources.sqlite_file import find_inode, list_columns, open_database

_NEEDED = {"traceId", "spanId", "name", "attributes"}
_FURTHER = ("parentSpanId", "startTimeUnixNano", "endTimeUnixNano", "events", "status", "conversationId", "runId")


class StudioDatabase:
    """Streams the spans of `~/AgentScope-Studio/database.sqlite`, or of a copy."""

    kind = "AgentScope Studio database"

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.path = name, path
        self.inode: tuple[int, int] | None = None

    def records(self) -> Iterator[Record]:
        """Yield the spans in the order they were stored."""
        self.inode = find_inode(self.path)
        with open_database(self.path) as connection:
            there = list_columns(connection, "span_table")
            if not there >= _NEEDED:
                raise DataError(f"source '{self.name}': span_table lacks the columns {', '.join(sorted(_NEEDED - there))}")
            columns = [*sorted(_NEEDED), *(name for name in _FURTHER if name in there)]
            quoted = ", ".join(f'"{name}"' for name in columns)
            for row in connection.execute(f"SELECT rowid AS number, {quoted} FROM span_table ORDER BY rowid"):
                try:
                    yield self._span(row, columns)
                except ODD as error:
                    reason = f"a span in a shape that is not understood ({type(error).__name__})"
                    yield BadRecord(place=f"{self.name} span_table row {row['number']}", reason=reason)

    def _span(self, row: sqlite3.Row, columns: list[str]) -> Span | BadRecord:
        place = f"{self.name} span_table row {row['number']}"
        more = {name: row[name] if name in columns else None for name in _FURTHER}
        try:
            attributes = json.loads(row["attributes"])
            events, status = (_json(more[name]) for name in ("events", "status"))
        except (ValueError, TypeError, RecursionError):
            return BadRecord(place=place, reason="its attributes are not valid JSON")
        if not isinstance(attributes, dict) or not row["traceId"] or not row["spanId"]:
            return BadRecord(place=place, reason="it has no ids, or its attributes are not a JSON object")
        conversation = more["conversationId"] or more["runId"]
        own = {"conversation.id": str(conversation)} if conversation else {}
        return Span(
            source=self.name,
            trace_id=str(row["traceId"]),
            span_id=str(row["spanId"]),
            parent_id=str(more["parentSpanId"]) if more["parentSpanId"] else None,
            name=str(row["name"]),
            start_ns=_nanoseconds(more["startTimeUnixNano"]),
            end_ns=_nanoseconds(more["endTimeUnixNano"]),
            attributes={**own, **attributes},
            events=parse_events(events),
            failed=isinstance(status, dict) and status.get("code") in (2, "2", "STATUS_CODE_ERROR", "ERROR"),
        )


def _json(text: Any) -> Any:
    return json.loads(text) if isinstance(text, str) and text else None


def _nanoseconds(value: Any) -> int:
    """Return a time that older versions stored as seconds or milliseconds too."""
    try:
        number = float(value)
        for digits, factor in ((11, 10**9), (14, 10**6), (17, 10**3)):
            if 0 < number < 10**digits:
                return int(number * factor)
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return 0
