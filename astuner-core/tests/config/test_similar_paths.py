from __future__ import annotations

from pathlib import Path

import pytest

from astuner.settings.config.paths import find_similar_path


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for name in ("tasks/train.jsonl", "tasks/validation.jsonl", "judge.py", "agent.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("tasks/trian.jsonl", "tasks/train.jsonl"),
        ("task/train.jsonl", "tasks/train.jsonl"),
        ("./task/trian.jsonl", "./tasks/train.jsonl"),
        ("tasks/train.json", "tasks/train.jsonl"),
        ("tasks/test.jsonl", None),
        ("model.py", None),
        ("nowhere/at/all.jsonl", None),
    ],
)
def test_the_path_that_was_meant_is_written_in_the_same_way(written: str, meant: str | None, directory: Path) -> None:
    assert find_similar_path(written, directory) == meant


def test_an_absolute_path_is_answered_by_one(directory: Path) -> None:
    assert find_similar_path(str(directory / "task/train.jsonl"), Path("/")) == str(directory / "tasks/train.jsonl")
