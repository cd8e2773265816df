"""Writes the demonstrations and the tasks. In the demonstrations somebody checks and answers, often at random."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

from agent import CHECK, MOST_CALLS, SYSTEM_PROMPT, check
from numbers_game import SIGNS

NUMBERS = range(2, 14)
NEW = 16
"""Of the 66 pairs of numbers, those that only the validation has."""
DEMONSTRATIONS = 300
SENSIBLE = 0.3
"""Share of the steps of a demonstration that try a new sign, or answer with the one that is right; the others are any."""
STOPS = 0.4
"""Share of the other steps that answer."""

Row = Mapping[str, Any]


def write_files(directory: Path) -> None:
    """Write the three files of rows."""
    random = Random(0)
    pairs = [(high, low) for low, high in combinations(NUMBERS, 2)]
    random.shuffle(pairs)
    new, known = pairs[:NEW], pairs[NEW:]
    write_rows(directory / "demos.jsonl", [play(random.choice(known), random) for _ in range(DEMONSTRATIONS)])
    write_rows(directory / "train.jsonl", [make_task(pair, sign) for pair in known for sign in SIGNS])
    write_rows(directory / "validation.jsonl", [make_task(pair, sign) for pair in new for sign in SIGNS])


def make_task(pair: tuple[int, int], sign: str) -> Row:
    """Return a row of tasks, whose target the sign makes of the numbers."""
    target = SIGNS[sign](*pair)
    return {"main_query": f"Make {target} from {pair[0]} and {pair[1]}.", "numbers": pair, "target": target}


def play(pair: tuple[int, int], random: Random) -> Row:
    """Return a conversation that checks and answers, often at random: it tries again what has failed, and stops too early."""
    right = random.choice(list(SIGNS))
    task = make_task(pair, right)
    messages: list[Row] = [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": task["main_query"]}]
    tried: list[str] = []
    while True:
        sensible = random.random() < SENSIBLE
        known = sensible and right in tried
        if known or len(tried) == MOST_CALLS - 1 or (not sensible and random.random() < STOPS):
            answer = right if known else random.choice(list(SIGNS))
            return {"messages": [*messages, {"role": "assistant", "content": answer}], "tools": [CHECK]}
        tried.append(random.choice([sign for sign in SIGNS if not sensible or sign not in tried] or list(SIGNS)))
        arguments = json.dumps({"sign": tried[-1]})
        call = {"id": f"call_{len(tried)}", "type": "function", "function": {"name": "check", "arguments": arguments}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": check(arguments, task)})


def write_rows(file: Path, rows: Iterable[Row]) -> None:
    """Write JSON lines."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    write_files(Path(__file__).parent)
