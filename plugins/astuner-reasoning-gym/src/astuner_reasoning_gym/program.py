"""reasoning-gym in child processes: making puzzles and scoring answers cannot harm or block the run there.

Only the child imports the library.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from astuner_judges.json_child import JsonProgram


def is_installed() -> bool:
    """Whether the library is installed; it is not imported."""
    return find_spec("reasoning_gym") is not None


def make_program(timeout_s: float) -> JsonProgram:
    """Return the program of a child that gets `timeout_s` for one question.

    Questions are `{"check": …}`, whether these settings work, `{"make": …}`, and `{"score": …}`; see `child.py`.
    """
    return JsonProgram(
        path=Path(__file__).with_name("child.py"),
        name="reasoning-gym",
        arguments=(str(timeout_s),),
        environment={"PYTHONHASHSEED": "0"},
    )
