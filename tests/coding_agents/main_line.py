"""The conversations of a coding agent that was played: its main line, and what runs beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from agent_stage import continues

from astuner.contract.schema import Call
from astuner.episodes.transcript.conversations import name_conversations

THOUGHT = "<think>\nA file is wanted.\n</think>\n\n"

SUBTASK = "Your part of the work: write the file."
"""What a main line asks of its sub-agent."""


def make_folders(folder: Path) -> tuple[Path, Path]:
    """Return the program's home and an empty folder that it works in."""
    home, work = folder / "home", folder / "work"
    for made in (home, work):
        made.mkdir(parents=True)
    return home, work


def answer(main: Sequence[str], sub: Sequence[str] = ()) -> Callable[[str], str]:
    """Answer main line and sub-agent by the number of tool results in the prompt, and calls without tools with a title."""

    def reply(prompt: str) -> str:
        if "Tools:{" not in prompt:
            return "A file"
        # In quotes it is the call of the main line.
        says = sub if SUBTASK in prompt.replace(f'"{SUBTASK}"', "") else main
        return says[min(prompt.count("<tool_response>"), len(says) - 1)]

    return reply


def name_roots(calls: Sequence[Call]) -> dict[int, str]:
    """Return the name of the conversation that each call belongs to; `main line` if there is one alone."""
    names = name_conversations(calls)
    found: dict[int, str] = {}
    for call in calls:
        found[call.index] = names.get(call.index, "main line") if call.parent is None else found[call.parent]
    return found


def check_main_line(calls: Sequence[Call]) -> list[int]:
    """Assert that each call of the main line continues the one before; return their indices."""
    main = [index for index, name in name_roots(calls).items() if name == "main line"]
    assert [later for earlier, later in pairwise(main) if not continues(calls, later, earlier)] == []
    return main
