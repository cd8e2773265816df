"""The environment that docs/recording.md shows is played as its configuration says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

PAGE = (Path(__file__).parents[3] / "docs" / "recording.md").read_text(encoding="utf-8")


def block(language: str, holds: str) -> str:
    """The block of a language that holds some text."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return next(text for text in found if holds in text)


def test_the_environment_of_the_page_rewards_the_right_number(run: Callable[..., Any], tmp_path: Path):
    (tmp_path / "world.py").write_text(block("python", "class World"))
    settings = yaml.safe_load(block("yaml", "environment_type"))["astuner"]
    tasks = [{"main_query": f"Find {answer}.", "answer": answer} for answer in ("7", "8")]
    played = run(tasks=tasks, replies=("It is \\boxed{7}.",), settings=settings)
    assert played.rewards == [1.0, 0.0]
    assert [episode.output.metadata["ended"] for episode in played.episodes] == ["done", "max_steps"]
