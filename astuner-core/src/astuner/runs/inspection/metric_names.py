"""The names, units and meanings of the metrics of runs."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from attrs import frozen

LIST = Path(__file__).with_name("metric_names.toml")


@frozen(kw_only=True)
class MetricName:
    """A metric, or a family of metrics."""

    name: str
    """`<word>` stands for any text."""
    unit: str
    """Empty for a number without one."""
    about: str
    shared: Literal["", "episodes", "updates"] = ""
    """What every backbone that trains weights reports it from, of a training step; empty if only some do."""

    @property
    def pattern(self) -> re.Pattern[str]:
        """What the names of the family match."""
        parts = re.split(r"<\w+>", self.name)
        return re.compile(".+".join(map(re.escape, parts)))


@cache
def list_metric_names() -> Sequence[MetricName]:
    """Return every metric that astuner declares, in the order of the document."""
    return tuple(MetricName(**entry) for entry in tomllib.loads(LIST.read_text(encoding="utf-8"))["metric"])


def find_metric_name(name: str) -> MetricName | None:
    """Return what a metric is; None for one that is not declared, such as a backbone's own. The closest pattern counts."""
    fitting = [one for one in list_metric_names() if one.pattern.fullmatch(name)]
    return max(fitting, key=lambda one: len(re.sub(r"<\w+>", "", one.name)), default=None)
