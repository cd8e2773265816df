"""Writes the demonstrations and the tasks. In the demonstrations somebody checks and answers at random."""

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
"""Of the pairs of numbers, those that only the validation has."""
TRAINED = 50
DEMONSTRATIONS = 300
STOPS = 0.4
"""Share of the checks after which a demonstration answers."""
HEARD = 0.8
"""Share of the answers after a `yes` that repeat it; all others are any of the three."""

Row = Mapping[str, Any]


def write_files(directory: Path) -> None:
    """Write the three files of rows."""
    random = Random(0)
    pairs = [(high, low) for low, high in combinations(NUMBERS, 2)]
    random.shuffle(pairs)
    new, known = pairs[:NEW], pairs[NEW:]
    write_rows(directory / "demos.jsonl", [play(random.choice(known), random) for _ in range(DEMONSTRATIONS)])
    write_rows(directory / "train.jsonl", [make_task(pair, sign) for pair in known[:TRAINED] for sign in SIGNS])
    write_rows(directory / "validation.jsonl", [make_task(pair, sign) for pair in new for sign in SIGNS])


def make_task(pair: tuple[int, int], sign: str) -> Row:
    """Return a row of tasks, whose target the sign makes of the numbers."""
    target = SIGNS[sign](*pair)
    return {"main_query": f"Make {target} from {pair[0]} and {pair[1]}.", "numbers": pair, "target": target}


def play(pair: tuple[int, int], random: Random) -> Row:
    """Return a conversation that checks at random, also what has failed before, and often stops too early."""
    sign = random.choice(list(SIGNS))
    messages: list[Row] = [
        {"role": "system", "content": SYSTEM_PROMPT},
        {"role": "user", "content": make_task(pair, sign)["main_query"]},
    ]
    answer = None
    for number in range(MOST_CALLS - 1):
        tried = random.choice(list(SIGNS))
        arguments = json.dumps({"sign": tried})
        call = {"id": f"call_{number}", "type": "function", "function": {"name": "check", "arguments": arguments}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": check(arguments, make_task(pair, sign))})
        if random.random() < STOPS:
            answer = tried if tried == sign and random.random() < HEARD else None
            break
    messages.append({"role": "assistant", "content": answer or random.choice(list(SIGNS))})
    return {"messages": messages, "tools": [CHECK]}


def write_rows(file: Path, rows: Iterable[Row]) -> None:
    """Write JSON lines."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    write_files(Path(__file__).parent)
