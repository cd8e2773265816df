"""Older spellings of keys and values, which are read as the present ones and named in one notice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import define, field

from astuner.contract.errors import Problem
from astuner.settings.config.agent import COMMAND
from astuner.settings.config.places import ROOT, Place, Places, make_problem
from astuner.settings.config.sections import TRACKERS
from astuner.settings.config.trees import Tree

ROOT_ALIASES = ("ajet",)

_OLD_PACKAGES = ("astuner", "ajet", "astune")

KEY_ALIASES: Mapping[str, str] = {
    "rollout.agentscope_learn_protocol": "rollout.user_workflow",
    "rollout.agentscope_workflow": "rollout.user_workflow",
    "rollout.val_kwargs.num_repeat": "trainer_common.val_pass_n",
    "task_reader.feedback_tracing": "task_reader.tracing",
    "task_reader.jsonl_dataset_file": "task_reader.dataset_file",
    **{f"context_tracker.{name}_cm": f"context_tracker.{name}" for name in TRACKERS},
}
"""Old path → present path, below the root."""

_JUDGES = {
    "customized_protocal": "customized_protocol",
    **{f"{package}.task_judge.env_service_as_judge->EnvServiceJudge": "env_service" for package in _OLD_PACKAGES},
    **{f"{package}.task_judge.math_answer_as_judge->MathAnswerAsJudge": "math" for package in _OLD_PACKAGES},
}
_READERS = {"feedback_tracing": "tracing", "jsonl_dataset_file": "dataset_file"}

VALUE_ALIASES: Mapping[str, Mapping[str, str]] = {
    "task_reader.type": _READERS,
    "task_judge.judge_type": _JUDGES,
    "task_judge.judge_protocol": _JUDGES,
    "task_judge.judges[].judge": _JUDGES,
    "task_judge.rubrics_auto_grader.input_data_type": _READERS,
    "rollout.user_workflow": {"astuner.agents:Command": COMMAND, "astuner.agents->Command": COMMAND},
    "context_tracker.context_tracker_type": {f"{name}_cm": name for name in TRACKERS},
}
"""Old value → present value, by path below the root; `[]` is every item of a list."""

# Existing default YAMLs set these two to different numbers, so that cannot be an error.
_PRESENT_WINS = ("rollout.val_kwargs.num_repeat",)


@define(eq=False)
class Renaming:
    """Replaces old spellings in the trees of one load, and records which ones it met."""

    used: dict[str, str] = field(factory=dict)
    """Old spelling → present one, those that were met."""
    problems: list[Problem] = field(factory=list)
    overruled: list[str] = field(factory=list)
    """Notices on old keys that contradict their current spelling."""

    def apply(self, tree: Tree, places: dict[str, Place]) -> None:
        """Rename keys and values of a root section in place, and move the places along."""
        for old, new in KEY_ALIASES.items():
            self._rename_key(tree, places, old, new)
        self.apply_to_values(tree)

    def apply_to_values(self, tree: Tree) -> None:
        """Rename values alone, for those that only an interpolation has shown."""
        for path, names in VALUE_ALIASES.items():
            self._rename_value(tree, path.split("."), names)

    def format_notice(self) -> str | None:
        """Name all old spellings that were met."""
        if not self.used:
            return None
        pairs = ", ".join(f"{old} → {new}" for old, new in self.used.items())
        return f"Older spellings are read as the present ones: {pairs}."

    def _rename_key(self, tree: Tree, places: dict[str, Place], old: str, new: str) -> None:
        section, name = _find_section(tree, old.split("."))
        if section is None or name not in section:
            return
        value = section.pop(name)
        self.used[old] = new
        target, target_name = _find_section(tree, new.split("."), create=True)
        if target is None:
            return
        if target_name in target and target[target_name] != value:
            if old in _PRESENT_WINS:
                given = f"{old} ({value}) is not used: {new} ({target[target_name]}) is the same setting under its present name."
                self.overruled.append(given)
            else:
                message = f"this is the older spelling of {new}, which is given too, with another value. Remove one of the two."
                self.problems.append(make_problem(f"{ROOT}.{old}", message, Places(places)))
            return
        target[target_name] = value
        _move_places(places, f"{ROOT}.{old}", f"{ROOT}.{new}")

    def _rename_value(self, tree: Any, path: list[str], names: Mapping[str, str]) -> None:
        if not path or not isinstance(tree, dict):
            return
        key = path[0].removesuffix("[]")
        if path[0] != key:
            items = tree.get(key)
            for item in items if isinstance(items, list) else ():
                self._rename_value(item, path[1:], names)
        elif len(path) > 1:
            self._rename_value(tree.get(key), path[1:], names)
        elif isinstance(tree.get(key), str) and tree[key] in names:
            self.used[tree[key]] = names[tree[key]]
            tree[key] = names[tree[key]]


def add_old_keys(tree: Tree) -> None:
    """Add to a root section an interpolation at each older spelling of a key that is there, so that it can be referred to."""
    for old, new in KEY_ALIASES.items():
        section, name = _find_section(tree, new.split("."))
        if section is not None and name in section:
            target, old_name = _find_section(tree, old.split("."))
            if target is not None:
                target.setdefault(old_name, f"${{{ROOT}.{new}}}")


def _find_section(tree: Tree, path: list[str], create: bool = False) -> tuple[Tree | None, str]:
    """Return the section that holds the last key of a path; None if there is no such section."""
    section: Any = tree
    for key in path[:-1]:
        if create and section.get(key) is None:
            section[key] = {}
        section = section.get(key)
        if not isinstance(section, dict):
            return None, path[-1]
    return section, path[-1]


def _move_places(places: dict[str, Place], old: str, new: str) -> None:
    for key in list(places):
        if key == old or key.startswith((f"{old}.", f"{old}[")):
            places.setdefault(new + key[len(old) :], places[key])
