"""Verdicts and rewards as judges and workflows give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from astuner.contract.plain_values import LARGEST_NUMBER, LARGEST_REWARD, read_bool, read_number, read_text, show_value
from astuner.contract.schema import Unjudged, Verdict


def read_reward(value: Any) -> float | None:
    """Return a reward as a float; None if it is not a finite number, or too large for its advantage to be one."""
    return read_number(value, largest=LARGEST_REWARD)


def read_success(value: Any) -> bool | None:
    """Return whether something is true, as Python sees it; None for None. Raises what the value raises when it is asked."""
    return None if value is None else bool(value)


def describe_range(largest: float) -> str:
    """Return what a number must be, for messages."""
    return f"a finite number between -{largest:g} and {largest:g}"


def check_verdict(verdict: Verdict) -> Verdict | Unjudged:
    """Return a judge's verdict with plain values; an `Unjudged` that says what is wrong, or that the reward is None."""
    try:
        if verdict.reward is None:
            return Unjudged(reason="abstained", detail="the reward is None: the judge has no opinion")
        return _make_verdict(verdict)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the boundary for judges: values may raise anything, SystemExit too
        return Unjudged(reason="bad_verdict", detail=read_text(error))


def _make_verdict(verdict: Verdict) -> Verdict:
    is_success = read_success(verdict.is_success)
    return Verdict(
        _read(verdict.reward, "the reward", LARGEST_REWARD),
        # A reward that is a truth value says it too.
        read_bool(verdict.reward) if is_success is None else is_success,
        rewards=None if verdict.rewards is None else _read_each(verdict.rewards, "the reward of", LARGEST_REWARD),
        components=_read_each(verdict.components, "the component", LARGEST_NUMBER),
        rationale=None if verdict.rationale is None else read_text(verdict.rationale),
        presumed=bool(verdict.presumed),
    )


def _read_each(numbers: Mapping[Any, Any], what: str, largest: float) -> dict[str, float]:
    return {read_text(name): _read(value, f"{what} {read_text(name)!r}", largest) for name, value in numbers.items()}


def _read(value: Any, name: str, largest: float) -> float:
    number = read_number(value, largest=largest)
    if number is None:
        raise ValueError(f"{name} is {show_value(value)}; it must be {describe_range(largest)}")
    return number
