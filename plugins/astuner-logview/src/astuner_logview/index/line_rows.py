"""What the index takes of a line of the store, complete and checked before anything of it is written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

from astuner_logview.index.facts import NO_VERDICT, Row, read_facts, read_rationale, read_texts, read_verdict
from astuner_logview.index.record_outline import read_outline

LARGEST = 2**63 - 1
"""The largest whole number that a column holds."""


@frozen(kw_only=True)
class EpisodeRows:
    """An episode: its row, and the text that searches look at."""

    row: Row
    text: str


@frozen(kw_only=True)
class VerdictRows:
    """A verdict that was stored after its episode."""

    id: str
    columns: Row | None
    """Of the episode's row; None if there is nothing to take."""
    data: str
    """The same, as JSON."""
    rationale: str


@frozen(kw_only=True)
class Cut:
    """Forgets the episodes of later steps that were stored before."""

    step: int


LineRows = EpisodeRows | VerdictRows | Cut


def read_line_rows(split: int, line: bytes) -> list[LineRows]:
    """Return the rows of a line of a split. Raises one of `BROKEN` for one that is damaged or holds what an index cannot."""
    return list(_iterate_rows(split, read_outline(line)))


def _iterate_rows(split: int, record: Mapping[str, Any]) -> Iterator[LineRows]:
    match record["kind"]:
        case "episode":
            yield _read_episode(split, record["episode"])
        case "verdicts":
            for identity, data in record["verdicts"].items():
                if data is not None:
                    yield _read_verdict(identity, data)
        case "cut":
            yield Cut(step=_check(record["step"]))


def _read_episode(split: int, data: Mapping[str, Any]) -> EpisodeRows:
    facts = read_facts(data)
    place = f"{split}/{facts['step']:012d}/{facts['task']}/{facts['repeat']:09d}"
    row = {**facts, **NO_VERDICT, **(read_verdict(data["verdict"]) or {}), "split": split, "place": place}
    for value in row.values():
        _check(value)
    return EpisodeRows(row=row, text=_check(read_texts(data)))


def _read_verdict(identity: str, data: Mapping[str, Any]) -> VerdictRows:
    columns = read_verdict(data)
    for value in (columns or {}).values():
        _check(value)
    text = json.dumps(columns, ensure_ascii=False)
    return VerdictRows(id=_check(identity), columns=columns, data=_check(text), rationale=_check(read_rationale(data)))


def _check(value: Any) -> Any:
    """Return a value that a column can hold.

    A savepoint around each line could undo its rows as well, but at each of them the index of words is written to disk.
    """
    match value:
        case str():
            if not value.isascii():
                value.encode()
        case int():
            if not -LARGEST <= value <= LARGEST:
                raise OverflowError("a whole number that no column holds")
        case None | float():
            pass
        case _:
            raise TypeError(f"a column holds no {type(value).__name__}")
    return value
