"""Write `rounds.jsonl`, tasks with the objects, and `demos.jsonl`: agents that mean the same by a word half of the time."""

from __future__ import annotations

import json
from pathlib import Path

OBJECTS = ("apple", "boat", "clock", "drum")
WORDS = ("ba", "du", "ki", "lo")
HERE = Path(__file__).parent


def main() -> None:
    """Write both files."""
    rounds = ({"id": f"{name}-{number}", "query": name} for number in range(8) for name in OBJECTS)
    _write("rounds.jsonl", rounds)
    # Each object with each word, and with one of them three times as often as with each other: the germ of a language.
    pairs = [(name, word) for name in OBJECTS for word in WORDS] + 2 * list(zip(OBJECTS, WORDS, strict=True))
    spoken = [_talk("speaker", f"Secret: {name}. Say a word.", word) for name, word in pairs]
    heard = [_talk("listener", f"Word: {word}. Name the object.", name) for name, word in pairs]
    _write("demos.jsonl", spoken + heard)


def _talk(agent: str, text: str, answer: str) -> dict[str, object]:
    said = (("system", f"You are the {agent}."), ("user", text), ("assistant", answer))
    return {"messages": [{"role": role, "content": content} for role, content in said]}


def _write(name: str, rows: object) -> None:
    (HERE / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
