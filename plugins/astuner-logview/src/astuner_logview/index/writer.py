"""Makes the index of a run and keeps it up to date: newest first, a block at a time, each block in one transaction."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

from attrs import define, field

from astuner.runs.store.store_lines import UNREADABLE
from astuner.shared.private_files import open_regular, open_stored
from astuner_logview.index.facts import Row
from astuner_logview.index.file_blocks import (
    BLOCK,
    FIRST_BLOCK,
    SAMPLE,
    find_end,
    read_after,
    read_before,
    split_lines,
    take_sample,
)
from astuner_logview.index.group_signal import SignalWriter, read_scoring
from astuner_logview.index.line_rows import Cut, EpisodeRows, VerdictRows, read_line_rows
from astuner_logview.index.schema import SPLITS, open_index

BROKEN = (*UNREADABLE, UnicodeError, OverflowError)
"""What a record raises whose content an index cannot hold."""


@define(eq=False)
class IndexWriter:
    """The index of one run. Only one process writes it at a time; the run is only read."""

    run: Path
    path: Path
    block: int = field(default=BLOCK, kw_only=True)
    """Bytes that are indexed at once."""
    first_block: int = field(default=FIRST_BLOCK, kw_only=True)
    """The same of the first block, whose episodes somebody may wait for."""
    _connection: sqlite3.Connection = field(init=False)
    _signal: SignalWriter = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Open the index, or begin it."""
        self._connection = open_index(self.path)
        self._signal = SignalWriter(self._connection)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def advance(self) -> bool:
        """Index the next block of what is not indexed yet; return whether there was one."""
        identity = _read_identity(self.run)
        if self._signal.take_scoring(read_scoring(self.run)):
            return True
        advanced = [self._advance_split(number, identity) for number in range(len(SPLITS))]
        return any(advanced)

    def _advance_split(self, split: int, identity: str) -> bool:
        try:
            file = open_regular(self.run / "episodes" / f"{SPLITS[split]}.jsonl")
        except OSError:
            return self._forget(split)
        try:
            return self._advance_file(split, file, identity)
        except (EOFError, OSError):
            # It was cut while it was read: the next look finds that it is another one.
            return False
        finally:
            os.close(file)

    def _advance_file(self, split: int, file: int, identity: str) -> bool:
        size = os.fstat(file).st_size
        ranges = self._read_ranges(split)
        if ranges and not self._is_same(split, file, size, identity, ranges):
            self._forget(split)
            ranges = []
        top = ranges[-1][1] if ranges else 0
        end = find_end(file, size, top)
        begin, data = top, b""
        if end > top and (end - top <= self.block and ranges):
            data = read_after(file, top, end, self.block)
            ranges[-1] = (ranges[-1][0], top + len(data))
        elif end > top:
            begin, data = read_before(file, end, top, self.first_block)
            ranges = _merge([*ranges, (begin, end)])
        elif (gap := _find_gap(ranges)) is not None:
            floor, end = gap
            begin, data = read_before(file, end, floor, self.block)
            ranges = _merge([*ranges, (begin, end)])
        else:
            self._note_size(split, file, size, identity)
            return False
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            for offset, line in split_lines(data, begin):
                self._add_line(split, offset, line)
            self._signal.write_dirty()
            self._write_state(split, file, ranges, size, identity)
            connection.execute("COMMIT")
        except BaseException:
            # A full disk has ended the transaction already.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._signal.dirty.clear()
            raise
        return True

    def _add_line(self, split: int, offset: int, line: bytes) -> None:
        try:
            rows = read_line_rows(split, line)
        except BROKEN:
            self._connection.execute("INSERT OR IGNORE INTO damages VALUES(?, ?)", (split, offset))
            return
        for found in rows:
            match found:
                case EpisodeRows():
                    self._add_episode(split, offset, len(line), found)
                case VerdictRows():
                    self._add_verdict(split, offset, len(line), found)
                case Cut():
                    self._add_cut(split, offset, found.step)

    def _add_episode(self, split: int, offset: int, length: int, found: EpisodeRows) -> None:
        run, row = self._connection.execute, {**found.row, "offset": offset, "length": length}
        if run("SELECT 1 FROM cuts WHERE split=? AND offset>? AND step<?", (split, offset, row["step"])).fetchone():
            return
        known = run("SELECT rowid, offset FROM episodes WHERE id=?", (row["id"],)).fetchone()
        if known is not None:
            if known[1] >= offset:
                return
            run("DELETE FROM episodes WHERE rowid=?", known[:1])
        later = run("SELECT rowid, offset, length, data FROM verdicts WHERE id=? AND offset>?", (row["id"], offset)).fetchone()
        if later is not None:
            row |= {**json.loads(later[3]), "verdict_rowid": later[0], "verdict_offset": later[1], "verdict_length": later[2]}
        rowid = self._insert("episodes", row)
        run("INSERT INTO texts(rowid, text) VALUES(?, ?)", (rowid, found.text))
        self._signal.dirty.add((split, row["step"], row["task"]))

    def _add_verdict(self, split: int, offset: int, length: int, found: VerdictRows) -> None:
        run = self._connection.execute
        known = run("SELECT rowid, offset FROM verdicts WHERE id=?", (found.id,)).fetchone()
        if known is not None:
            if known[1] >= offset:
                return
            run("DELETE FROM verdicts WHERE rowid=?", known[:1])
        stored = {"id": found.id, "split": split, "offset": offset, "length": length, "data": found.data}
        rowid = self._insert("verdicts", stored)
        if found.rationale:
            run("INSERT INTO rationales(rowid, text) VALUES(?, ?)", (rowid, found.rationale))
        episode = run("SELECT rowid, step, task FROM episodes WHERE id=? AND offset<?", (found.id, offset)).fetchone()
        if episode is not None and found.columns is not None:
            row = {**found.columns, "verdict_rowid": rowid, "verdict_offset": offset, "verdict_length": length}
            names = ", ".join(f"{name}=?" for name in row)
            run(f"UPDATE episodes SET {names} WHERE rowid=?", (*row.values(), episode[0]))
            self._signal.dirty.add((split, *episode[1:]))

    def _add_cut(self, split: int, offset: int, step: int) -> None:
        run = self._connection.execute
        run("INSERT INTO cuts VALUES(?, ?, ?)", (split, offset, step))
        run("DELETE FROM episodes WHERE split=? AND offset<? AND step>?", (split, offset, step))

    def _insert(self, table: str, row: Row) -> int:
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        found = self._connection.execute(f"INSERT INTO {table}({names}) VALUES({marks})", tuple(row.values())).lastrowid
        assert found is not None
        return found

    def _read_ranges(self, split: int) -> list[tuple[int, int]]:
        return self._connection.execute("SELECT low, high FROM ranges WHERE split=? ORDER BY low", (split,)).fetchall()

    def _is_same(self, split: int, file: int, size: int, identity: str, ranges: list[tuple[int, int]]) -> bool:
        """Whether the file is still the one that was indexed, as far as its ends tell."""
        found = self._connection.execute("SELECT identity, head, tail FROM files WHERE split=?", (split,)).fetchone()
        if found is None or size < ranges[-1][1] or found[0] != identity:
            return False
        return bool(found[1:] == _take_samples(file, ranges[-1][1]))

    def _write_state(self, split: int, file: int, ranges: list[tuple[int, int]], size: int, identity: str) -> None:
        run = self._connection.execute
        run("DELETE FROM ranges WHERE split=?", (split,))
        self._connection.executemany("INSERT INTO ranges VALUES(?, ?, ?)", [(split, *one) for one in ranges])
        samples = _take_samples(file, ranges[-1][1])
        run("INSERT OR REPLACE INTO files VALUES(?, ?, ?, ?, ?)", (split, identity, *samples, size))

    def _note_size(self, split: int, file: int, size: int, identity: str) -> None:
        """Record that nothing but a line without an end is left: it was cut short, or is still being written."""
        run = self._connection.execute
        if run("UPDATE files SET size=? WHERE split=? AND size<>?", (size, split, size)).rowcount == 0:
            run("INSERT OR IGNORE INTO files VALUES(?, ?, ?, ?, ?)", (split, identity, *_take_samples(file, 0), size))

    def _forget(self, split: int) -> bool:
        """Empty the part of a split whose file is gone or another one."""
        run = self._connection.execute
        if run("SELECT 1 FROM files WHERE split=?", (split,)).fetchone() is None:
            return False
        run("BEGIN IMMEDIATE")
        for table in ("files", "ranges", "damages", "cuts", "verdicts", "episodes"):
            run(f"DELETE FROM {table} WHERE split=?", (split,))
        if run("SELECT 1 FROM files").fetchone() is None:
            for table in ("texts", "rationales"):
                run(f"INSERT INTO {table}({table}) VALUES('delete-all')")
        run("COMMIT")
        return True


def _merge(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join the ranges that touch."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and found[-1][1] >= low:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def _find_gap(ranges: list[tuple[int, int]]) -> tuple[int, int] | None:
    """Return the last part that is not indexed."""
    if not ranges or ranges[-1][0] == 0:
        return None
    return (ranges[-2][1] if len(ranges) > 1 else 0), ranges[-1][0]


def _take_samples(file: int, high: int) -> tuple[str, str]:
    return take_sample(file, 0, min(SAMPLE, high)), take_sample(file, max(0, high - SAMPLE), high)


def _read_identity(run: Path) -> str:
    """Return what tells a run from another one in the same directory: when it was first started. Empty if that is not known."""
    try:
        with open_stored(run / "run.json") as file:
            return json.dumps(json.load(file)["attempts"][0], sort_keys=True)
    except (OSError, *UNREADABLE):
        return ""
