"""From AgentJet's YAML to ours, with an answer for every key that changes."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import attrs
from attrs import define, field

from astuner.settings.config.importers import Answer, Translation
from astuner.settings.config.model import Config
from astuner_ajet.importer.keys import (
    DROPPED,
    DROPPED_VERL,
    EMBEDDING,
    HYDRA,
    NATIVE,
    OUTPUT_PATHS,
    PATHS,
    PROGRAMS,
    READERS,
    RENAMED,
    ROOTS,
    VERL,
)

ROOT = "astuner"
WORKFLOW = f"{ROOT}.workflow"
SERVICE_KEYS = ("task_reader.env_service", "environment.environment_type")


@define
class Translator:
    """Translates one tree: the file, or what the command line sets."""

    values: Mapping[str, Any]
    directory: Path
    """Where relative paths start."""
    file: Mapping[str, Any] | None = None
    """The file that the command line sets something in; None if this is the file."""
    roots: dict[str, Any] = field(factory=dict)
    answers: dict[str, Answer] = field(factory=dict)
    _written: str = field(default=ROOT, init=False)

    def translate(self) -> Translation:
        """Return the translation."""
        written = next((name for name in (*ROOTS, ROOT) if name in self.values), ROOTS[0])
        tree: dict[str, Any] = copy.deepcopy(dict(self._find_root(self.values)))
        self.roots = {ROOT: tree}
        self._written = written
        self._translate_roots(written)
        for old, new in RENAMED.items():
            if (value := _take(tree, old)) is not None:
                _put(tree, new, value)
                self._answer(old, "translated", f"{ROOT}.{new}")
        for old, reason in DROPPED.items():
            self._drop(tree, old, reason)
        _take(tree, "task_runner", only_if_empty=True)
        self._translate_values(tree)
        self._set_aside_own_sections(tree)
        self._anchor_paths(tree)
        if written != ROOT:
            self.answers[written] = Answer(key=written, kind="translated", keys=(ROOT,))
        return Translation(roots=self.roots, answers=tuple(self.answers.values()))

    def _translate_roots(self, written: str) -> None:
        for name, value in self.values.items():
            if name == written:
                continue
            if name in HYDRA:
                reason = "default values are those of astuner's own model"
                self.answers[name] = Answer(key=name, kind="ignored", reason=reason)
            elif name in NATIVE or name == ROOT:
                self.roots[name] = copy.deepcopy(value)
            elif name in VERL:
                self._translate_verl(name, value)
            else:
                self.roots[ROOT].setdefault("workflow", {})[name] = copy.deepcopy(value)
                reason = f"your code reads it as config.{name}"
                self.answers[name] = Answer(key=name, kind="translated", keys=(f"{WORKFLOW}.{name}",), reason=reason)

    def _translate_verl(self, name: str, value: Any) -> None:
        section = {name: copy.deepcopy(value)}
        for path, reason in DROPPED_VERL.items():
            if path.startswith(f"{name}.") and (old := _take(section, path)) is not None:
                self.answers[path] = Answer(key=path, kind="dropped", reason=reason)
                if path == "trainer.logger":
                    self.answers[path] = Answer(key=path, kind="translated", keys=(f"{ROOT}.{reason}",))
                    self.roots[ROOT].setdefault("trainer_common", {})["logger"] = old
        if section[name]:
            self.roots.setdefault("verl", {})[name] = section[name]
            self.answers[name] = Answer(key=name, kind="translated", keys=(f"verl.{name}",))

    def _translate_values(self, tree: dict[str, Any]) -> None:
        self._change(tree, "context_tracker.timeline_merging_policy.timeline_compare_level", _compare_tokens)
        self._change(tree, "rollout.compute_madness_checklist", _read_checklist)
        self._change(tree, "rollout.name", _choose_engine)
        self._change(tree, "trainer_common.logger", _log_without_swanlab)
        self._change(tree, "task_judge.judge_protocol", _keep_own_formula)
        self._change(tree, "task_reader.type", _find_reader)
        self._change(tree, "task_judge.rubrics_auto_grader.grader_name", _name_file)
        reader = tree.get("task_reader")
        if not isinstance(reader, dict) or self.file is not None:
            return
        if reader.get("type") in READERS.values() and "env_service" in reader and "environment" not in tree:
            tree["environment"] = {"environment_type": "env_service"}
            reason = "its tasks are played in that environment too"
            self._answer("task_reader.env_service", "translated", *(f"{ROOT}.{key}" for key in SERVICE_KEYS), reason=reason)
        for name in ("tracing", "feedback_tracing"):
            self._compare_spelling(reader, name)
        for section in _find_sections(reader, "huggingface_dat_repo"):
            section.setdefault("default_query", "Empty")
            section.setdefault("keep_repeats", True)
        for name in ("dataset_file", "jsonl_dataset_file"):
            for section in _find_sections(reader, name, "training", "validation"):
                section.setdefault("default_query", "[not defined]")
                section.setdefault("keep_repeats", True)

    def _compare_spelling(self, reader: dict[str, Any], name: str) -> None:
        """Leave out what AgentJet's filter of tasks needs to ask an embedding API."""
        filters = reader[name].get("filters") if isinstance(reader.get(name), dict) else None
        for position, choice in enumerate(filters if isinstance(filters, list) else ()):
            params = choice.get("params") if isinstance(choice, dict) and choice.get("type") == "deduplication" else None
            if not isinstance(params, dict):
                continue
            for key in (key for key in EMBEDDING if key in params):
                del params[key]
                where = f"task_reader.{name}.filters[{position}].params.{key}"
                self._answer(where, "dropped", reason="questions are compared by their spelling, without an API")

    def _change(self, tree: dict[str, Any], path: str, change: Callable[[Any], tuple[Any, str] | None]) -> None:
        section, name = _find(tree, path)
        if section is None or name not in section or (changed := change(section[name])) is None:
            return
        section[name] = changed[0]
        self._answer(path, "translated", f"{ROOT}.{path}", reason=changed[1])

    def _set_aside_own_sections(self, tree: dict[str, Any]) -> None:
        """Move what neither AgentJet nor astuner knows to the workflow's settings, where its code still finds it.

        From the command line only what the file has too: anything else is a mistake.
        """
        known = attrs.fields_dict(Config)
        for name in [name for name in tree if name not in known]:
            if self.file is None or name in self._find_root(self.file):
                above, reason = f"{WORKFLOW}.{ROOTS[0]}", f"no key of AgentJet's; your code reads it as config.ajet.{name}"
                section = tree.setdefault("workflow", {}).setdefault(ROOTS[0], {})
            elif name in self.file and name not in VERL:
                above, reason = WORKFLOW, f"your code reads it as config.{name}"
                section = tree.setdefault("workflow", {})
            else:
                continue
            section[name] = tree.pop(name)
            self._answer(name, "translated", f"{above}.{name}", reason=reason)

    @staticmethod
    def _find_root(values: Mapping[str, Any]) -> Mapping[str, Any]:
        found = next((values[name] for name in (*ROOTS, ROOT) if name in values), None)
        return found if isinstance(found, Mapping) else {}

    def _anchor_paths(self, tree: dict[str, Any]) -> None:
        for path in (*PATHS, *OUTPUT_PATHS):
            section, name = _find(tree, path)
            if section is None or name not in section:
                continue
            value = section[name]
            anchored = [self._anchor(one, must_exist=path in PATHS) for one in value] if isinstance(value, list) else None
            section[name] = self._anchor(value, must_exist=path in PATHS) if anchored is None else anchored
        for path in PROGRAMS:
            section, name = _find(tree, path)
            if section is not None and isinstance(section.get(name), str) and ".py" in section[name]:
                file, arrow, attribute = section[name].partition("->")
                section[name] = f"{self._anchor(file, must_exist=True)}{arrow}{attribute}"

    def _anchor(self, value: Any, *, must_exist: bool) -> Any:
        """Return a path from the working directory as an absolute one; a path that is not there as it is."""
        if not isinstance(value, str) or not value or "://" in value or "${" in value or Path(value).expanduser().is_absolute():
            return value
        place = self.directory / value
        return str(place.resolve()) if place.exists() or not must_exist else value

    def _drop(self, tree: dict[str, Any], path: str, reason: str) -> None:
        if _take(tree, path) is not None:
            self._answer(path, "dropped", reason=reason)

    def _answer(self, path: str, kind: Literal["translated", "dropped"], *keys: str, reason: str = "") -> None:
        key = f"{self._written}.{path}"
        self.answers[key] = Answer(key=key, kind=kind, keys=keys, reason=reason)


def _compare_tokens(value: Any) -> tuple[Any, str] | None:
    why = "a sampled token is trained under exactly the ids that it was sampled under; force_inexact trains with text"
    return ("token", why) if value == "text" else None


def _read_checklist(value: Any) -> tuple[Any, str] | None:
    return ([], "no detectors") if value in (None, "None") else None


def _choose_engine(value: Any) -> tuple[Any, str] | None:
    return ("auto", "vllm is AgentJet's only value; the backbone chooses its engine") if value == "vllm" else None


def _log_without_swanlab(value: Any) -> tuple[Any, str] | None:
    """Leave out AgentJet's own default logger where it is not installed."""
    if value != "swanlab" or all(find_spec(name) is not None for name in ("astuner_loggers", "swanlab")):
        return None
    return "console", "swanlab is not installed: pip install 'astuner-loggers[swanlab]'"


def _keep_own_formula(value: Any) -> tuple[Any, str] | None:
    """Spell AgentJet's own judge so that it is not read as an older name of astuner's judge, whose reward differs."""
    found = re.fullmatch(r"(?:ajet|astune)\.task_judge\.env_service_as_judge->EnvServiceJudge", str(value))
    return ("ajet.task_judge.env_service_as_judge:EnvServiceJudge", "AgentJet's own formula") if found else None


def _find_reader(value: Any) -> tuple[Any, str] | None:
    place = READERS.get(value) if isinstance(value, str) else None
    return (place, "a reader of the project's own") if place else None


def _name_file(value: Any) -> tuple[Any, str] | None:
    name = re.sub(r"[^\w.-]+", "_", value) if isinstance(value, str) else value
    return (name, "it names a file") if name != value else None


def _find(tree: dict[str, Any], path: str) -> tuple[dict[str, Any] | None, str]:
    *above, name = path.split(".")
    section: Any = tree
    for key in above:
        section = section.get(key)
        if not isinstance(section, dict):
            return None, name
    return section, name


def _find_sections(reader: dict[str, Any], *names: str) -> list[dict[str, Any]]:
    section = reader.get(names[0])
    if not isinstance(section, dict):
        return []
    found = [section.get(name) for name in names[1:]] if names[1:] else [section]
    return [one for one in found if isinstance(one, dict)]


def _take(tree: dict[str, Any], path: str, *, only_if_empty: bool = False) -> Any:
    section, name = _find(tree, path)
    if section is None or name not in section or (only_if_empty and section[name]):
        return None
    return section.pop(name)


def _put(tree: dict[str, Any], path: str, value: Any) -> None:
    *above, name = path.split(".")
    section = tree
    for key in above:
        section = section.setdefault(key, {})
    section[name] = value
