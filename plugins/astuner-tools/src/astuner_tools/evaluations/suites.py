"""Suites: tasks and a judge by name, from the packages that bring them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from astuner.contract.errors import UsageError
from astuner.settings.config.structure_errors import find_closest
from astuner.settings.plugins.functions import load_function
from astuner.settings.plugins.kinds import GROUPS
from astuner.shared.known_packages import read_known_packages

PREFIX = "suite_"
"""An entry point of this name in `astuner.functions` is a suite: it takes what follows the colon, and returns keys and values.
Users write hyphens where the name has underscores."""

PLAIN: Mapping[str, Any] = {
    "task_judge.judge_protocol": None,
    "task_judge.judges": [],
    "rollout.user_workflow": "astuner_tools.evaluations.plain_agent:PlainAgent",
}
"""The tasks of a suite are asked plainly, and its own judge alone decides."""


def choose_suite(text: str) -> list[str]:
    """Return what `--set` would give for `--suite NAME:WHAT`; raises `UsageError` for one that is not installed."""
    name, colon, what = text.partition(":")
    if not colon or not what:
        raise UsageError(f"--suite {text}: write it as NAME:WHAT, for example reasoning-gym:spell_backward or gsm8k:test.jsonl")
    known = {*_list_suites(), *_list_known()}
    if name not in known:
        close = find_closest(name, sorted(known))
        hint = f" Did you mean '{close}'?" if close else f" There are: {', '.join(sorted(known)) or 'none'}."
        raise UsageError(f"--suite {text}: no suite '{name}'.{hint}")
    make = load_function(f"{PREFIX}{name.replace('-', '_')}", f"--suite {text}: the suite '{name}'")
    chosen = {**PLAIN, **make(what)}
    return [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in chosen.items()]


def _list_suites() -> list[str]:
    entries = entry_points(group=str(GROUPS["function"]))
    return [_read_name(entry.name) for entry in entries if entry.name.startswith(PREFIX)]


def _list_known() -> list[str]:
    known = read_known_packages().components
    return [_read_name(name) for kind, name in known if kind == "function" and name.startswith(PREFIX)]


def _read_name(entry_point: str) -> str:
    return entry_point.removeprefix(PREFIX).replace("_", "-")
