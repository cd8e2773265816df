"""Writes tasks/: `python write_data.py [SEED]`. Things of the validation appear nowhere in training."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from random import Random

THINGS = Path(__file__).with_name("things.txt").read_text(encoding="utf-8").split()
HELD_OUT = 40
"""Things for validation."""


def write_tasks(directory: Path, seed: int) -> None:
    """Write the two files of tasks: three questions for each thing of the validation, two for each other thing."""
    random = Random(seed)
    things = random.sample(THINGS, len(THINGS))
    for split, chosen, times in (("train", things[HELD_OUT:], 2), ("validation", things[:HELD_OUT], 3)):
        rows = list(make_rows(split, chosen, times, random))
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (directory / f"{split}.jsonl").write_text(text, encoding="utf-8")


def make_rows(split: str, things: list[str], times: int, random: Random) -> Iterable[dict[str, str]]:
    """Yield questions about each thing, each time with another price."""
    for thing in things:
        article = "an" if thing[0] in "aeiou" else "a"
        for number, price in enumerate(random.sample(range(2, 100), times)):
            question = f"How much is {article} {thing}?"
            yield {"task_id": f"{split}-{thing}-{number}", "main_query": question, "item": thing, "price": str(price)}


if __name__ == "__main__":
    folder = Path(__file__).with_name("tasks")
    folder.mkdir(exist_ok=True)
    write_tasks(folder, int(sys.argv[1]) if len(sys.argv) > 1 else 0)
