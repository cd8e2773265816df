"""Writes the demonstrations and the tasks. A third of the words is not demonstrated, and the validation has its own sentences."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

from agent import ROUTE, SYSTEM_PROMPT

WORDS = {
    "billing": ("invoice", "refund", "receipt"),
    "hardware": ("printer", "keyboard", "screen"),
    "network": ("wifi", "vpn", "router"),
    "account": ("password", "login", "profile"),
    "shipping": ("parcel", "delivery", "courier"),
}
SHOWN = 2
"""Of the words of a queue, those that the demonstrations have, each in two sentences."""
SENTENCES = (
    "My {} is wrong.",
    "There is a problem with the {}.",
    "Please help me with my {}.",
    "The {} does not work.",
    "I have a question about the {}.",
    "What about the {}?",
)
NEW_SENTENCES = ("Something is wrong with my {}.", "The {} is a problem.", "I have a problem with the {}.")

Row = Mapping[str, Any]


def write_files(directory: Path) -> None:
    """Write the three files of rows."""
    random = Random(0)
    demonstrations, tickets, new = [], [], []
    for queue, words in WORDS.items():
        for number, word in enumerate(words):
            first, second, *rest = random.sample(SENTENCES, len(SENTENCES))
            if number < SHOWN:
                demonstrations += [demonstrate(sentence.format(word), queue) for sentence in (first, second)]
            tickets += [{"main_query": sentence.format(word), "queue": queue} for sentence in rest]
            new += [{"main_query": sentence.format(word), "queue": queue} for sentence in NEW_SENTENCES]
    write_rows(directory / "demos.jsonl", demonstrations)
    write_rows(directory / "train.jsonl", tickets)
    write_rows(directory / "validation.jsonl", new)


def demonstrate(ticket: str, queue: str) -> Row:
    """Return the conversation in which a ticket is sent to a queue."""
    function = {"name": "route", "arguments": json.dumps({"queue": queue})}
    return {
        "messages": [
            {"role": "system", "content": SYSTEM_PROMPT},
            {"role": "user", "content": ticket},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": function}]},
        ],
        "tools": [ROUTE],
    }


def write_rows(file: Path, rows: Iterable[Row]) -> None:
    """Write JSON lines."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    write_files(Path(__file__).parent)
