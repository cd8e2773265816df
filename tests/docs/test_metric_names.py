"""The document of loggers lists the metrics that all backbones share, and no others."""

from __future__ import annotations

import re
from pathlib import Path

from astuner.training.metric_names import OF_EPISODES, OF_UPDATES

DOCUMENT = Path(__file__).parents[2] / "docs" / "loggers.md"


def test_the_metrics_of_a_step_are_listed_with_their_meaning() -> None:
    section = DOCUMENT.read_text(encoding="utf-8").partition("## Metrics of a step")[2]
    listed = re.findall(r"^\| `([^`]+)` \| (.+) \|$", section, re.MULTILINE)
    assert dict(listed) == {**OF_EPISODES, **OF_UPDATES}
