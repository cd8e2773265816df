"""Stores spans on disk until their trace is complete: a trace's root comes last, and feedback days later."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, overload

import cattrs

from astuner_tracing.annotations import find_annotations
from astuner_tracing.attributes import keep_relevant
from astuner_tracing.records import Annotation, Span
from astuner_tracing.tasks import Candidate

_TABLES = """
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
CREATE TABLE spans (trace TEXT, span TEXT, start INTEGER, body TEXT, PRIMARY KEY (trace, span)) WITHOUT ROWID;
CREATE INDEX spans_by_id ON spans (span);
CREATE TABLE annotations (number INTEGER PRIMARY KEY, body TEXT);
CREATE TABLE tasks (number INTEGER PRIMARY KEY, trace TEXT, time INTEGER, conversation TEXT, standing INTEGER, score REAL,
                    dropped TEXT, first INTEGER, body TEXT);
CREATE INDEX tasks_by_trace ON tasks (trace);
CREATE INDEX tasks_by_conversation ON tasks (conversation, time);
CREATE TABLE members (trace TEXT, span TEXT, task INTEGER, PRIMARY KEY (trace, span, task)) WITHOUT ROWID;
CREATE INDEX members_by_span ON members (span);
CREATE TABLE said (task INTEGER, body TEXT);
CREATE INDEX said_by_task ON said (task);
"""
_LAST_TIME = 2**63 - 1


class Spool:
    """Spans, annotations and tasks in a temporary file. Memory holds one trace, or one task, at a time."""

    def __init__(self, path: Path) -> None:
        self._file = sqlite3.connect(path, isolation_level=None)
        self._file.executescript(_TABLES)
        self._convert = cattrs.Converter()

    def close(self) -> None:
        """Close the file, which is the caller's to remove."""
        self._file.close()

    def add_span(self, span: Span) -> bool:
        """Store a span and its annotations; return whether its ids are new."""
        body = {
            "source": span.source,
            "parent": span.parent_id,
            "name": span.name,
            "end": span.end_ns,
            "attributes": keep_relevant(span.attributes),
            "events": [dict(event) for event in span.events],
            "failed": span.failed,
        }
        row = (_text(span.trace_id), _text(span.span_id), _clamp_time(span.start_ns), _to_json(body))
        if self._file.execute("INSERT OR IGNORE INTO spans VALUES (?, ?, ?, ?)", row).rowcount == 0:
            return False
        for annotation in find_annotations(span):
            self.add_annotation(annotation)
        return True

    def add_annotation(self, annotation: Annotation) -> None:
        """Store an annotation."""
        body = _to_json(self._convert.unstructure(annotation))
        self._file.execute("INSERT INTO annotations (body) VALUES (?)", (body,))

    def traces(self) -> Iterator[list[Span]]:
        """Yield the spans of each trace, traces in order of their first time."""
        query = "SELECT trace FROM spans GROUP BY trace ORDER BY MIN(start), trace"
        with closing(self._file.cursor()) as cursor:
            for (trace,) in cursor.execute(query):
                rows = self._file.execute("SELECT span, start, body FROM spans WHERE trace = ?", (trace,)).fetchall()
                yield [_span(trace, *row) for row in rows]

    def add_task(self, candidate: Candidate, unusable: str | None = None) -> None:
        """Store a candidate and the ids of its spans; an `unusable` one too, so that it is reported."""
        trace, time_ns, conversation = _text(candidate.trace_id), _clamp_time(candidate.time_ns), _text(candidate.conversation)
        row = (trace, time_ns, conversation, candidate.standing, unusable, self._body(candidate))
        insert = "INSERT INTO tasks (trace, time, conversation, standing, dropped, body) VALUES (?, ?, ?, ?, ?, ?)"
        number = self._file.execute(insert, row).lastrowid
        members = ((trace, _text(span), number) for span in candidate.members)
        self._file.executemany("INSERT OR IGNORE INTO members VALUES (?, ?, ?)", members)

    def annotations(self) -> Iterator[Annotation]:
        """Yield the annotations in order of arrival."""
        with closing(self._file.cursor()) as cursor:
            for (body,) in cursor.execute("SELECT body FROM annotations ORDER BY number"):
                yield self._convert.structure(json.loads(body), Annotation)

    def find_tasks(self, annotation: Annotation) -> list[int]:
        """Return the turns of an annotation, in order of time, whether or not they become tasks.

        Those with its span, else those of its trace, else the conversation's latest. A span outside any turn
        stands for its trace, if that has one turn. Of a conversation it is the latest turn that started before the annotation.
        """
        trace, span = _text(annotation.trace_id), _text(annotation.span_id)
        if span is not None:
            if trace is not None:
                found = self._numbers("SELECT task FROM members WHERE trace = ? AND span = ?", trace, span)
            else:
                found = self._numbers("SELECT task FROM members WHERE span = ?", span)
            if found:
                return found
            of_trace = self._numbers("SELECT number FROM tasks WHERE trace IN (SELECT trace FROM spans WHERE span = ?)", span)
            return of_trace if len(of_trace) == 1 else []
        if trace is not None:
            return self._numbers("SELECT number FROM tasks WHERE trace = ? ORDER BY time, number", trace)
        if annotation.conversation_id is not None:
            query = "SELECT number FROM tasks WHERE conversation = ? AND time <= ? ORDER BY time DESC, number DESC LIMIT 1"
            return self._numbers(query, _text(annotation.conversation_id), _clamp_time(annotation.time_ns) or _LAST_TIME)
        return []

    def attach_annotation(self, number: int, annotation: Annotation) -> None:
        """Store an annotation of a task."""
        self._file.execute("INSERT INTO said VALUES (?, ?)", (number, _to_json(self._convert.unstructure(annotation))))

    def list_annotations(self, number: int) -> list[Annotation]:
        """Return the annotations of a task."""
        rows = self._file.execute("SELECT body FROM said WHERE task = ? ORDER BY rowid", (number,))
        return [self._convert.structure(json.loads(body), Annotation) for (body,) in rows]

    def set_task(self, number: int, candidate: Candidate) -> None:
        """Replace an earlier form of a task."""
        row = (candidate.standing, candidate.reward, self._body(candidate), number)
        self._file.execute("UPDATE tasks SET standing = ?, score = ?, body = ? WHERE number = ?", row)

    def drop(self, number: int, reason: str, kept: int | None = None) -> None:
        """Drop a task; `kept` then represents both, and is in the split of the earlier."""
        self._file.execute("UPDATE tasks SET dropped = ? WHERE number = ?", (reason, number))
        if kept is not None:
            firsts = (self.find_first(number), self.find_first(kept))
            query = "SELECT number FROM tasks WHERE number IN (?, ?) ORDER BY time, number LIMIT 1"
            self._file.execute("UPDATE tasks SET first = ? WHERE number = ?", (*self._numbers(query, *firsts), kept))

    def find_first(self, number: int) -> int:
        """Return the first of the tasks that a task represents, itself by default."""
        (first,) = self._file.execute("SELECT first FROM tasks WHERE number = ?", (number,)).fetchone()
        return number if first is None else int(first)

    def tasks(self, *, best_first: bool = False) -> Iterator[tuple[int, Candidate]]:
        """Yield the remaining tasks, in order of time, or the best first. They may be dropped meanwhile."""
        order = "standing, score DESC, time, number" if best_first else "time, number"
        for number in self._numbers(f"SELECT number FROM tasks WHERE dropped IS NULL ORDER BY {order}"):
            (body,) = self._file.execute("SELECT body FROM tasks WHERE number = ?", (number,)).fetchone()
            yield number, self._convert.structure(json.loads(body), Candidate)

    def conversations(self) -> Iterator[tuple[str, int, int]]:
        """Yield each conversation: its name, the number of its first turn, the time of its last, tasks or not.

        A task that a filter drops must not move others to another split.
        """
        query = """
SELECT conversation,
       (SELECT number FROM tasks one WHERE one.conversation = tasks.conversation ORDER BY time, number),
       MAX(time)
FROM tasks GROUP BY conversation ORDER BY MIN(time), conversation
"""
        with closing(self._file.cursor()) as cursor:
            yield from cursor.execute(query)

    def task(self, number: int) -> Candidate:
        """Return one task."""
        (body,) = self._file.execute("SELECT body FROM tasks WHERE number = ?", (number,)).fetchone()
        return self._convert.structure(json.loads(body), Candidate)

    def _body(self, candidate: Candidate) -> str:
        return _to_json(self._convert.unstructure(candidate))

    def _numbers(self, query: str, *parameters: Any) -> list[int]:
        return [number for (number,) in self._file.execute(query, parameters)]


def _span(trace: str, span: str, start: int, body: str) -> Span:
    kept_ = json.loads(body)
    return Span(
        source=kept_["source"],
        trace_id=trace,
        span_id=span,
        parent_id=kept_["parent"],
        name=kept_["name"],
        start_ns=start,
        end_ns=kept_["end"],
        attributes=kept_["attributes"],
        events=tuple(kept_["events"]),
        failed=kept_["failed"],
    )


def _to_json(value: Any) -> str:
    # SQLite does not accept lone surrogates, which JSON may hold as escapes.
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"), default=str)


@overload
def _text(value: str) -> str: ...
@overload
def _text(value: None) -> None: ...
def _text(value: str | None) -> str | None:
    """Return a name that SQLite accepts."""
    return value if value is None else value.encode("utf-8", "backslashreplace").decode()


def _clamp_time(value: int) -> int:
    return min(max(value, 0), _LAST_TIME)
