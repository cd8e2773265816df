"""The suite `reasoning-gym` of `astuner eval --suite`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def choose_suite(families: str) -> Mapping[str, Any]:
    """Return the configuration that asks the puzzles of some families, separated by commas, and scores the answers."""
    datasets = [family.strip() for family in families.split(",")]
    return {
        "task_reader.type": "reasoning_gym",
        "task_reader.reasoning_gym": {"datasets": datasets},
        "task_judge.judge_type": "reasoning_gym",
    }
