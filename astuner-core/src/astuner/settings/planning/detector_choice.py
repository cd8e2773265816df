"""Choosing the detectors of abnormal behaviour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astuner.contract.errors import ConfigError, Problem
from astuner.settings.config.components import find_section
from astuner.settings.config.places import make_problem
from astuner.settings.config.structure_errors import find_closest
from astuner.settings.plugins.component import Component

if TYPE_CHECKING:
    from astuner.settings.config.loading import LoadedConfig
    from astuner.settings.planning.chooser import Chooser

CHECKLIST = "rollout.compute_madness_checklist"

IDLE = ("agent_madness_termination", "agent_madness_reward")
"""Keys of `rollout` that act only with a detector."""


def choose_detectors(chooser: Chooser, loaded: LoadedConfig) -> tuple[Component, ...]:
    """Return the detectors that are switched on, each once, with their options; problems are noted in the chooser."""
    rollout = loaded.config.rollout
    chooser.attempt(lambda: _check_sections(loaded))
    chosen: dict[str, Component] = {}
    for position, name in enumerate(rollout.compute_madness_checklist):
        key = f"astuner.{CHECKLIST}[{position}]"
        found = chooser.choose("detector", name, key, find_section(rollout.detectors, name), f"rollout.detectors.{name}")
        if found is not None:
            chooser.attempt(lambda found=found, key=key: _check_name(found, chosen, key))  # type: ignore[misc] # mypy reads no defaults
            chosen.setdefault(found.candidate.name, found)
    return tuple(chosen.values())


def idle_notices(loaded: LoadedConfig) -> list[str]:
    """Return notices on keys that have no effect without a detector."""
    if loaded.config.rollout.compute_madness_checklist:
        return []
    idle = [key for key in (f"rollout.{name}" for name in IDLE) if key in loaded.user_keys]
    return [f"{key} has no effect: no detector is switched on ({CHECKLIST})." for key in idle]


def _check_sections(loaded: LoadedConfig) -> None:
    rollout = loaded.config.rollout
    names = {name.rpartition("/")[2] for name in rollout.compute_madness_checklist} | set(rollout.compute_madness_checklist)
    problems = [
        make_problem(
            f"astuner.rollout.detectors.{name}",
            f"the detector '{name}' is not switched on; name it in {CHECKLIST}, or remove its options.",
            loaded.locate,
            find_closest(name, names),
        )
        for name in rollout.detectors
        if name not in names
    ]
    if problems:
        raise ConfigError(problems)


def _check_name(found: Component, chosen: dict[str, Component], key: str) -> None:
    other = chosen.get(found.candidate.name)
    if other is not None and other.candidate != found.candidate:
        both = f"{found.candidate.blame} and {other.candidate.blame}"
        message = f"{both} have one name, under which findings are kept: switch only one of them on."
        raise ConfigError([Problem(key=key, message=message)])
