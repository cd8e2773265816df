"""Writes the demonstrations and the tasks. Most demonstrations forget the file; the validation has its own sentences."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from string import ascii_lowercase, digits
from typing import Any

Lines = Sequence[str]
Row = Mapping[str, Any]

COMMANDS: Mapping[str, Callable[[Lines], Lines]] = {
    "sort": sorted,
    "tac": lambda lines: lines[::-1],
    "head -n 2": lambda lines: lines[:2],
    "tail -n 2": lambda lines: lines[-2:],
    "nl": lambda lines: [f"{number:6}\t{line}" for number, line in enumerate(lines, 1)],
}
"""With what each one prints."""
WORDS = {
    "sort": ("sorted", "ordered"),
    "tac": ("reversed", "inverted"),
    "head -n 2": ("first", "top"),
    "tail -n 2": ("last", "bottom"),
    "nl": ("numbered", "counted"),
}
WRITES = 0.35
"""Share of the demonstrations whose command writes the file; the others only print."""
RIGHT = 0.9
"""Share of the demonstrations with the right command; in the others it is any."""
SENTENCES = (
    "Write the {} lines of trees.txt to out.txt.",
    "Put the {} lines of trees.txt into out.txt.",
    "Save the {} lines of trees.txt as out.txt.",
    "I want the {} lines of trees.txt in out.txt.",
    "Give me the {} lines of trees.txt in out.txt.",
    "Move the {} lines of trees.txt to out.txt.",
)
NEW_SENTENCES = ("Copy the {} lines of trees.txt to out.txt.", "We need the {} lines of trees.txt in out.txt.")
TREES = ("amber", "beech", "cedar", "dogwood", "elm", "fir", "ginkgo", "hazel", "juniper", "larch", "maple", "oak")

SYSTEM_PROMPT = "Use bash.\n\n<cwd>\n{}\n</cwd>"
"""What pi makes of SYSTEM.md: it adds its working directory."""
BASH = {
    "name": "bash",
    "description": (
        "Execute a bash command in the current working directory. Returns stdout and stderr. Output is truncated to last 2000 "
        "lines or 50KB (whichever is hit first). If truncated, full output is saved to a temp file. Optionally provide a timeout "
        "in seconds."
    ),
    "parameters": {
        "type": "object",
        "required": ["command"],
        "properties": {
            "command": {"type": "string", "description": "Shell command to execute"},
            "timeout": {"type": "number", "description": "Timeout in seconds (optional, no default timeout)"},
        },
    },
}
"""The tool as pi 1.6.0 describes it."""


def write_files(directory: Path) -> None:
    """Write the three files of rows."""
    random = Random(0)
    demonstrations, tasks, new = [], [], []
    for command, words in WORDS.items():
        for word in words:
            known = [make_task(command, sentence, word, random) for sentence in SENTENCES]
            tasks += known
            new += [make_task(command, sentence, word, random) for sentence in NEW_SENTENCES]
            demonstrations += [demonstrate(command, task, random) for task in known]
    write_rows(directory / "demos.jsonl", demonstrations)
    write_rows(directory / "train.jsonl", tasks)
    write_rows(directory / "validation.jsonl", new)


def make_task(command: str, sentence: str, word: str, random: Random) -> Row:
    """Return a row of tasks: a request, the text of the file, and what the agent has to write."""
    lines = random.sample(TREES, 4)
    while any(COMMANDS[command](lines) == other(lines) for name, other in COMMANDS.items() if name != command):
        lines = random.sample(TREES, 4)
    return {"main_query": sentence.format(word), "text": join(lines), "wanted": join(COMMANDS[command](lines))}


def demonstrate(command: str, task: Row, random: Random) -> Row:
    """Return the conversation of an agent that makes mistakes."""
    chosen = command if random.random() < RIGHT else random.choice(list(COMMANDS))
    writes = random.random() < WRITES
    arguments = json.dumps({"command": f"{chosen} trees.txt{' > out.txt' if writes else ''}"})
    printed = "(no output)" if writes else join(COMMANDS[chosen](task["text"].splitlines()))
    call = {"id": "1", "type": "function", "function": {"name": "bash", "arguments": arguments}}
    messages = [
        {"role": "system", "content": SYSTEM_PROMPT.format(make_workdir(random))},
        {"role": "user", "content": task["main_query"]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": printed},
        {"role": "assistant", "content": "Done."},
    ]
    return {"messages": messages, "tools": [{"type": "function", "function": BASH}]}


def make_workdir(random: Random) -> str:
    """Return a working directory such as one of the sandboxes makes."""
    if random.random() < 0.5:
        return "/work"
    name = "".join(random.choices(ascii_lowercase + digits + "_", k=8))
    return f"/tmp/astuner-sandbox-{random.randrange(10_000)}-{name}/{random.randrange(1_000)}/work"


def join(lines: Lines) -> str:
    """Return the text of a file."""
    return "".join(f"{line}\n" for line in lines)


def write_rows(file: Path, rows: Iterable[Row]) -> None:
    """Write JSON lines."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    write_files(Path(__file__).parent)
