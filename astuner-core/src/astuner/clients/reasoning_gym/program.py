"""What a child process that makes and scores puzzles runs. The library itself is imported there only."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from astuner.processes.json_child import JsonProgram


def is_installed() -> bool:
    """Whether the library is there; it is not imported for that."""
    return find_spec("reasoning_gym") is not None


def make_program(timeout_s: float) -> JsonProgram:
    """Return the program of a child that is given so long for one question.

    Questions are `{"check": …}`, whether puzzles can be made like this, `{"make": …}`, and `{"score": …}`; see `child.py`.
    """
    return JsonProgram(
        path=Path(__file__).with_name("child.py"),
        name="reasoning-gym",
        arguments=(str(timeout_s),),
        environment={"PYTHONHASHSEED": "0"},
    )
