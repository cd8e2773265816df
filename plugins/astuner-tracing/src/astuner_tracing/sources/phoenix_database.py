"""Phoenix's database: `phoenix.db` in Phoenix's working directory."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from astuner.contract.errors import DataError
from astuner_tracing.annotations import add_score, parse_annotator, to_number
from astuner_tracing.attributes import get_text
from astuner_tracing.records import ODD, Annotation, BadRecord, Record, Span
from astuner_tracing.sources.json_spans import parse_events, to_nanoseconds
from astuner_tracing.sources.sqlite_file import find_inode, list_columns, open_database

_SPANS = """
SELECT spans.id AS number, traces.trace_id, spans.span_id, spans.parent_id, spans.name, spans.start_time, spans.end_time,
       spans.attributes, spans.events, spans.status_code
FROM spans JOIN traces ON traces.id = spans.trace_rowid
WHERE ? IS NULL OR traces.project_rowid = ? ORDER BY spans.id
"""
_ANNOTATIONS = {
    "span_annotations": """
SELECT a.*, traces.trace_id AS trace_id, spans.span_id AS span_id, NULL AS session_id
FROM span_annotations a JOIN spans ON spans.id = a.span_rowid JOIN traces ON traces.id = spans.trace_rowid
WHERE ? IS NULL OR traces.project_rowid = ? ORDER BY a.id
""",
    "trace_annotations": """
SELECT a.*, traces.trace_id AS trace_id, NULL AS span_id, NULL AS session_id
FROM trace_annotations a JOIN traces ON traces.id = a.trace_rowid
WHERE ? IS NULL OR traces.project_rowid = ? ORDER BY a.id
""",
    "project_session_annotations": """
SELECT a.*, NULL AS trace_id, NULL AS span_id, s.session_id AS session_id
FROM project_session_annotations a JOIN project_sessions s ON s.id = a.project_session_id
WHERE ? IS NULL OR s.project_id = ? ORDER BY a.id
""",
}


class PhoenixDatabase:
    """Streams the spans of a Phoenix database, then the annotations of spans, traces and sessions."""

    kind = "Phoenix database"

    def __init__(self, name: str, path: Path, project: str | None) -> None:
        self.name, self.path, self._project = name, path, project
        self.inode: tuple[int, int] | None = None

    def records(self) -> Iterator[Record]:
        """Yield spans in order of arrival, then annotations."""
        self.inode = find_inode(self.path)
        with open_database(self.path) as connection:
            project = self._project_id(connection)
            for row in connection.execute(_SPANS, (project, project)):
                yield self._span(row)
            for table, query in _ANNOTATIONS.items():
                if list_columns(connection, table):
                    for row in connection.execute(query, (project, project)):
                        yield self._read_annotation(row, table)

    def _read_annotation(self, row: sqlite3.Row, table: str) -> Record:
        try:
            return _annotation(row)
        except ODD as error:
            return BadRecord(place=f"{self.name} {table} row {row['id']}", reason=f"in a shape that is not understood ({error})")

    def _project_id(self, connection: sqlite3.Connection) -> int | None:
        if self._project is None:
            return None
        projects = {str(row["name"]): int(row["id"]) for row in connection.execute("SELECT id, name FROM projects")}
        if self._project not in projects:
            raise DataError(f"source '{self.name}': no project '{self._project}'; there are: {', '.join(projects)}")
        return projects[self._project]

    def _span(self, row: sqlite3.Row) -> Span | BadRecord:
        try:
            attributes, events = json.loads(row["attributes"]), json.loads(row["events"] or "[]")
        except (ValueError, TypeError, RecursionError):
            return BadRecord(place=f"{self.name} spans row {row['number']}", reason="its attributes are not valid JSON")
        if not isinstance(attributes, dict):
            return BadRecord(place=f"{self.name} spans row {row['number']}", reason="its attributes are not a JSON object")
        return Span(
            source=self.name,
            trace_id=row["trace_id"],
            span_id=row["span_id"],
            parent_id=row["parent_id"],
            name=row["name"],
            start_ns=to_nanoseconds(row["start_time"]),
            end_ns=to_nanoseconds(row["end_time"]),
            attributes=attributes,
            events=parse_events(events),
            failed=row["status_code"] == "ERROR",
        )


def _annotation(row: sqlite3.Row) -> Annotation:
    return add_score(
        Annotation(
            trace_id=row["trace_id"],
            span_id=row["span_id"],
            conversation_id=get_text(dict(row), "session_id"),
            name=row["name"],
            annotator=parse_annotator(row["annotator_kind"]),
            user=_user(row),
            score=to_number(row["score"]),
            label=row["label"],
            comment=row["explanation"],
            time_ns=to_nanoseconds(row["updated_at"]),
        )
    )


def _user(row: sqlite3.Row) -> str:
    columns = row.keys()
    return next((str(row[name]) for name in ("identifier", "user_id") if name in columns and row[name]), "")
