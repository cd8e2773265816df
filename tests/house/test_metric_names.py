"""Every metric that the sources name is declared, with its unit and meaning."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from harness import REPOSITORY

from astuner.runs.inspection.metric_names import find_metric_name, list_metric_names
from astuner.runs.training.signal import CORRECTION_SUMS

NAMESPACES = "|".join(sorted({metric.name.split("/")[0] for metric in list_metric_names() if "/" in metric.name}))
OTHERS = {
    **dict.fromkeys(CORRECTION_SUMS, "a sum, of which the mean is declared"),
    "tokens/s": "a column of the console's table",
    "time/read_experience": "of Trinity, under its own prefix in a row",
    "time/train_step": "of Trinity, under its own prefix in a row",
}


def list_literals() -> Iterator[tuple[str, str]]:
    """Yield what the sources say of metrics: string literals that begin as the name of one, values in them as `x`."""
    for file in sorted([*REPOSITORY.glob("astuner-core/src/**/*.py"), *REPOSITORY.glob("plugins/*/src/**/*.py")]):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            text = None
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
            elif isinstance(node, ast.JoinedStr):
                text = "".join(part.value if isinstance(part, ast.Constant) else "x" for part in node.values)
            # A value in the second place stands for many families.
            if text is not None and re.fullmatch(rf"(?!\w+/x(?:/|$))(?:{NAMESPACES})/[\w/@.]*\w", text):
                yield str(file.relative_to(REPOSITORY)), text


def test_every_metric_that_the_sources_name_is_declared():
    found = list(list_literals())
    assert ("astuner-core/src/astuner/episodes/rollout/metrics.py", "signal/branches") in found
    assert [one for one in found if find_metric_name(one[1]) is None and one[1] not in OTHERS] == []
