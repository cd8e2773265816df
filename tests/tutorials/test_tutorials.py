"""The commands of every tutorial run, but for those that other tests follow to their end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from harness import REPOSITORY

TUTORIALS = sorted(path.parent for path in (REPOSITORY / "tutorial").glob("*/README.md"))
FOLLOWED = {
    "feedback_flywheel",
    "one_word",
    "shop",
    *(tutorial.name for tutorial in TUTORIALS if (tutorial / "demos.jsonl").exists()),
}
"""By `test_flywheel.py`, `test_pretrained.py`, `test_own_tasks.py` and `tests/coding_agents`."""


@pytest.mark.parametrize("tutorial", [tutorial.name for tutorial in TUTORIALS if tutorial.name not in FOLLOWED])
def test_the_commands_of_a_tutorial_run(tutorial: str, follow_tutorial: Callable[[str], list[str]]):
    assert follow_tutorial(tutorial)
