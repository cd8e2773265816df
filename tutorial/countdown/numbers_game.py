"""The rules: two numbers, a target, and the sign that makes the one of the other."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

SIGNS = {"plus": operator.add, "minus": operator.sub, "times": operator.mul}


def is_right(sign: str, row: Mapping[str, Any]) -> bool:
    """Return whether a sign makes the target of the numbers; what is no sign does not."""
    return sign in SIGNS and SIGNS[sign](*row["numbers"]) == row["target"]
