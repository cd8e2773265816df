"""Writes the reviews. Neither the things nor the opinions of the validation are in the training."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

THINGS = "apartment breakfast concert dessert festival haircut hike lecture museum parade repair sandwich"
OPINIONS = {
    "positive": [
        "splendid", "a great success", "better than expected", "warm and welcoming", "worth the money",
        "a pleasure", "lovely", "very good", "just what we needed", "superb",
    ],
    "negative": [
        "awful", "a complete failure", "worse than expected", "cold and unfriendly", "not worth the money",
        "a mess", "ugly", "very bad", "a waste of our time", "boring",
    ],
}  # fmt: skip
NEW_THINGS = "bakery cruise garden hostel movie printer soup story taxi zoo"
NEW_OPINIONS = {
    "positive": ["wonderful", "fresh and friendly", "a delight", "outstanding", "the best in years", "charming"],
    "negative": ["terrible", "stale and rude", "a nightmare", "disgusting", "the worst in years", "dreadful"],
}


def write_files(directory: Path) -> None:
    """Write the two files of rows."""
    random = Random(0)
    write_rows(directory / "train.jsonl", THINGS, OPINIONS, random)
    write_rows(directory / "validation.jsonl", NEW_THINGS, NEW_OPINIONS, random)


def write_rows(file: Path, things: str, opinions: Mapping[str, Sequence[str]], random: Random) -> None:
    """Write every opinion on every thing, in a random order."""
    pairs = [(label, words) for label, several in opinions.items() for words in several]
    rows = [{"main_query": f"The {thing} was {words}.", "label": label} for thing in things.split() for label, words in pairs]
    random.shuffle(rows)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    write_files(Path(__file__).parent)
