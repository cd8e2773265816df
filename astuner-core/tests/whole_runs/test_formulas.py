"""The page of the configuration has the formula of everything that a key can name."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from pathlib import Path
from typing import get_args

import pytest

from astuner.settings.config.trainer import KlEstimator, LossAggregation

PAGE = (Path(__file__).parents[3] / "docs" / "sources" / "configuration_introduction.md").read_text(encoding="utf-8")
ESTIMATORS = sorted(
    one.name for one in entry_points(group="astuner.estimators") if one.dist is not None and one.dist.name == "astuner-core"
)


@pytest.mark.parametrize("name", [*ESTIMATORS, *get_args(LossAggregation), *get_args(KlEstimator)])
def test_every_name_has_a_formula(name: str) -> None:
    assert re.search(rf"^\| `{name}` \|.*[a-zA-Z0-9]", PAGE, re.MULTILINE)
