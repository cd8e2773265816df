"""What is new in the runs since the last look: the events that pages listen to."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from astuner_logview.library import Library, LibraryRun
from astuner_logview.pages.episode_rows import describe_row
from astuner_logview.pages.run_rows import describe_run

MOST_ROWS = 20
_ID = re.compile(r"(\d{1,15})\.(\d{1,15})\.(\d{1,15})")


@frozen(kw_only=True)
class LiveEvent:
    """One server-sent event."""

    name: str
    """`run`, `step`, `episodes` or `index`."""
    data: Mapping[str, Any]
    id: str = ""
    """What the browser hands back after a lost connection; empty for events of all runs."""


@frozen(kw_only=True)
class Place:
    """How much of a run was seen: the last episode and the last verdict that were indexed, and the number of metric rows."""

    episode: int
    verdict: int
    metrics: int

    def __str__(self) -> str:
        """Return it as the id of an event."""
        return f"{self.episode}.{self.verdict}.{self.metrics}"


@define(eq=False, kw_only=True)
class Feed:
    """Finds what is new in one run, or which runs of the library have changed. One thread at a time uses it."""

    library: Library
    run: str | None = None
    """The id of a run; without it, there are events `run` of every run and no others."""
    last_id: str | None = None
    """The id of the last event that the page got; without it, only what happens from now on is new."""
    _place: Place | None = field(default=None, init=False)
    _rows: dict[str, Any] = field(factory=dict, init=False)
    _indexed: float | None = field(default=None, init=False)
    _is_whole: bool = field(default=False, init=False)
    """Whether all that was stored before is indexed: what is found meanwhile is not new."""

    def __attrs_post_init__(self) -> None:
        """Begin; raises `Missing` for a run that does not exist."""
        if self.run is not None:
            self.library.find(self.run)
        if self.last_id is not None and (found := _ID.fullmatch(self.last_id)):
            self._place = Place(episode=int(found[1]), verdict=int(found[2]), metrics=int(found[3]))

    def poll(self) -> list[LiveEvent]:
        """Return what is new since the last call, oldest first. The first call returns the rows of the runs."""
        if self.run is None:
            return [event for run in self.library.list_runs() for event in self._poll_row(run, "")]
        run = self.library.find(self.run)
        news = self._poll_contents(run)
        return [*news, *self._poll_row(run, str(self._place))]

    def _poll_row(self, run: LibraryRun, identity: str) -> list[LiveEvent]:
        row = describe_run(self.library, run)
        if self._rows.get(run.id) == row:
            return []
        self._rows[run.id] = row
        return [LiveEvent(name="run", data=row, id=identity)]

    def _poll_contents(self, run: LibraryRun) -> list[LiveEvent]:
        metrics = run.run.read_rows()
        with run.index.open() as connection:
            indexed = run.index.measure_progress(connection)
            now = Place(
                episode=connection.execute("SELECT coalesce(max(rowid), 0) FROM episodes").fetchone()[0],
                verdict=connection.execute("SELECT coalesce(max(rowid), 0) FROM verdicts").fetchone()[0],
                metrics=len(metrics),
            )
            before, self._place = self._place or now, now
            rows: list[sqlite3.Row] = []
            if self._is_whole or (self._indexed is None and indexed == 1.0):
                rows = connection.execute(
                    "SELECT * FROM episodes WHERE rowid>? OR verdict_rowid>? ORDER BY offset DESC",
                    (before.episode, before.verdict),
                ).fetchall()
        events = []
        if indexed != self._indexed:
            events.append(LiveEvent(name="index", data={"indexed": indexed}, id=str(now)))
        self._indexed, self._is_whole = indexed, self._is_whole or indexed == 1.0
        if rows:
            events.append(LiveEvent(name="episodes", data=_describe_rows(rows), id=str(now)))
        for row in metrics[before.metrics :]:
            data = {"step": row["step"], "split": row["kind"], "metrics": row}
            events.append(LiveEvent(name="step", data=data, id=str(now)))
        return events


def _describe_rows(rows: Sequence[sqlite3.Row]) -> dict[str, Any]:
    failed = [row for row in rows if not row["completed"] or row["judge_failed"]]
    return {
        "added": len(rows),
        "rows": [describe_row(row) for row in rows[:MOST_ROWS]],
        "failed": [describe_row(row) for row in failed[:MOST_ROWS]],
    }
