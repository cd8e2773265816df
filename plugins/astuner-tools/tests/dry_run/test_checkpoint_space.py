"""The space that checkpoints take."""

from __future__ import annotations

from typing import Any

import pytest

from astuner.settings.config.model import Config
from astuner.settings.config.trainer import TrainerCommon
from astuner_tools.dry_run.checkpoint_space import describe_checkpoints


@pytest.mark.parametrize(
    ("trainer", "validates", "text"),
    [
        ({}, False, "at most 3: every 20 steps, the last"),
        ({}, True, "at most 4: every 20 steps, the last, the best by validation (keep_best)"),
        ({"keep_best": False}, True, "at most 3: every 20 steps, the last"),
        ({"max_checkpoints_to_keep": 1}, True, "at most 2: every 20 steps, the last, the best by validation (keep_best)"),
        ({"save_freq": -1}, False, "at most 1: the last"),
    ],
)
def test_checkpoints_are_counted(trainer: dict[str, Any], validates: bool, text: str) -> None:
    assert describe_checkpoints(Config(trainer_common=TrainerCommon(**trainer)), None, 50, validates=validates) == text
