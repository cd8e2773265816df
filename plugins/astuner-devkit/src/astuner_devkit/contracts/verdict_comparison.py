"""Comparing verdicts of judges."""

from __future__ import annotations

import math
from typing import Any

from astuner.contract.schema import Unjudged, Verdict

AnyVerdict = Verdict | Unjudged


def list_numbers(verdict: Verdict) -> dict[str, Any]:
    """Return all numbers of a verdict, by place."""
    return {
        "reward": verdict.reward,
        **{f"rewards[{agent!r}]": number for agent, number in (verdict.rewards or {}).items()},
        **{f"components[{name!r}]": number for name, number in verdict.components.items()},
    }


def agree(one: AnyVerdict, other: AnyVerdict) -> bool:
    """Whether two verdicts agree; rationales are ignored."""
    if not isinstance(one, Verdict) or not isinstance(other, Verdict):
        return isinstance(one, Unjudged) and isinstance(other, Unjudged) and one.reason == other.reason
    mine, others = list_numbers(one), list_numbers(other)
    return (
        one.is_success == other.is_success
        and mine.keys() == others.keys()
        and all(_close(number, others[name]) for name, number in mine.items())
    )


def describe(verdict: AnyVerdict) -> str:
    """Return a verdict for a message."""
    if isinstance(verdict, Verdict):
        counted = ", ".join(f"{name} {number!r}" for name, number in list_numbers(verdict).items())
        return f"a Verdict ({counted}, is_success {verdict.is_success})"
    return f"{verdict!r:.120}"


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)
    return bool(one == other)
