"""What the tests of a Harbor task leave: `reward.json` with named numbers, or `reward.txt` with one."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

from astuner.contract.plain_values import show_value
from astuner_agents.task_folders.playing.errors import VerificationFailed

REWARD = "reward"
"""The name of the reward itself among named numbers."""


def read_rewards(name: str, text: str) -> Mapping[str, float]:
    """Return the rewards of a file by name; raises `VerificationFailed` for anything but finite numbers."""
    if not text.strip():
        raise VerificationFailed(f"the tests wrote an empty {name}")
    return _read_json(name, text) if name.endswith(".json") else {REWARD: _read_number(name, text)}


def choose_reward(rewards: Mapping[str, float]) -> float | None:
    """Return the reward of the episode: `reward`, or the only one; None leaves it to a judge."""
    if REWARD in rewards:
        return rewards[REWARD]
    return next(iter(rewards.values())) if len(rewards) == 1 else None


def _read_number(name: str, text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        raise VerificationFailed(f"the tests wrote {show_value(text.strip())} into {name}, which must be a number") from None
    if not math.isfinite(found):
        raise VerificationFailed(f"the tests wrote {text.strip()} into {name}, which must be a finite number")
    return found


def _read_json(name: str, text: str) -> Mapping[str, float]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise VerificationFailed(f"the tests wrote a {name} that is not valid JSON: {error}") from None
    if not isinstance(found, dict) or not found:
        raise VerificationFailed(f"the tests wrote {show_value(found)} into {name}, which must be numbers by name")
    for part, value in found.items():
        if not isinstance(value, int | float) or not math.isfinite(value):
            raise VerificationFailed(f"the tests wrote {show_value(value)} as '{part}' into {name}; it must be a finite number")
    return {part: float(value) for part, value in found.items()}
