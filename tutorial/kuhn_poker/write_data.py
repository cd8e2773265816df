"""Writes the tasks, one per deal, and the demonstrations: both actions once at each of the 12 information sets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from game import ACTIONS, DEALS, INFORMATION_SETS, InformationSet, write_answer, write_messages

Row = Mapping[str, Any]


def write_files(directory: Path) -> None:
    """Write the two files of rows."""
    write_rows(directory / "deals.jsonl", map(make_task, DEALS))
    write_rows(directory / "demos.jsonl", (demonstrate(known, action) for known in INFORMATION_SETS for action in ACTIONS))


def make_task(deal: tuple[str, str]) -> Row:
    """Return a row of tasks. Nobody is asked its query: each role reads its own card only."""
    return {"main_query": f"first: {deal[0]}, second: {deal[1]}", "first": deal[0], "second": deal[1]}


def demonstrate(known: InformationSet, action: str) -> Row:
    """Return the conversation in which an action is taken."""
    return {"messages": [*write_messages(known), {"role": "assistant", "content": write_answer(known, action)}]}


def write_rows(file: Path, rows: Iterable[Row]) -> None:
    """Write JSON lines."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    write_files(Path(__file__).parent)
