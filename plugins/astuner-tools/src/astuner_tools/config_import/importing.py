"""Translating another trainer's configuration, with an answer for each of its keys."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from attrs import evolve, frozen

from astuner.contract.errors import AstunerError, ConfigError, Problem, UsageError
from astuner.contract.protocols import BackboneTraits
from astuner.contract.protocols.traits import read_traits
from astuner.settings.config.alignment import Alignment
from astuner.settings.config.importers import Answer, Translation, load_importer
from astuner.settings.config.interpolation import Interpolation
from astuner.settings.config.loading import LoadedConfig, examine_config
from astuner.settings.config.model import Config
from astuner.settings.config.native import align
from astuner.settings.config.places import ROOT
from astuner.settings.config.show import dump_yaml
from astuner.settings.config.trees import Tree, change_leaves, flatten, get, put
from astuner.settings.config.yaml_lines import read_yaml
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.drivers import load
from astuner.shared.known_packages import read_known_packages
from astuner_tools.config_import.agent_file import AGENT_FILE, add_agent, check_agent
from astuner_tools.config_import.native_keys import translate_native
from astuner_tools.config_import.shell_overrides import ShellOverrides, read_shell_overrides
from astuner_tools.config_import.task_files import find_missing_files

__all__ = ["Imported", "import_config", "list_sources", "write_yaml"]

_VARIABLE = re.compile(r"\$\{oc\.env:\s*([A-Za-z_]\w*)\s*\}")
"""A variable without a default."""
MOST_ROUNDS = 20
"""Each leaves out what the one before found wrong; a trainer's own check may name its faults one by one."""

USERS_FILES = tuple(
    f"{ROOT}.{key}" for key in ("model.path", "task_reader", "rollout.user_workflow", "task_judge.judge_protocol")
)

TASKS_FILE = "./tasks.jsonl"


@frozen(kw_only=True)
class Imported:
    """A translated configuration."""

    text: str
    """The YAML."""
    answers: tuple[Answer, ...]
    """One for each leaf of the source, in its order."""
    open_problems: tuple[Problem, ...]
    """What the user still has to provide, or to correct."""
    agent: str | None
    """The text of `agent.py` beside it, if the source names no agent that runs here."""
    is_unchecked: bool
    """Whether the trainer could not check the keys that stay its own, since it is not installed here."""


def list_sources() -> tuple[str, ...]:
    """Return what `--from` takes here: the names of installed importers, and of backbones with a configuration of their own."""
    return tuple(sorted({*_list_importers(), *_list_aligned()}))


def import_config(source: Path, origin: str, target: Path) -> Imported:
    """Translate a file for a place; raises `UsageError` for an unknown origin, `ConfigError` for a file that cannot be read."""
    read = _read_source(source)
    alignment: Alignment | None = None
    if origin in _list_importers():
        translation = _complete(load_importer(origin, source).translate(read.tree, source, is_file=True), read.tree)
    elif origin in (aligned := _list_aligned()):
        alignment = aligned[origin]
        translation = translate_native(alignment, origin, _resolve_own_keys(read.tree))
    else:
        package = read_known_packages().package_of("importer", origin) or read_known_packages().package_of("backbone", origin)
        told = f"it comes with a package: python -m pip install {package}" if package else "there is no such source"
        raise UsageError(f"--from {origin}: {told}; there are {', '.join(list_sources())}")
    roots: Tree = change_leaves(translation.roots, lambda value, _: value)
    answers = {answer.key: answer for answer in translation.answers}
    answers |= {key: Answer(key=key, kind="dropped", reason=reason) for key, reason in read.without_value.items()}
    if not roots.get(ROOT) or all(answer.kind == "dropped" for answer in answers.values()):
        message = f"no key of this file is one of '{origin}'; the first is {next(iter(answers))!r}."
        raise ConfigError([Problem(message=message, file=source)])
    agent = add_agent(roots)
    _add_tasks(roots)
    _drop_unset(roots, answers)
    there = target.parent / AGENT_FILE
    is_new = agent is not None and not there.exists()
    problems, is_unchecked = _drop_faults(roots, answers, alignment, target)
    if agent is not None and not is_new:
        problems = [*problems, *check_agent(there, roots)]
    return Imported(
        text=write_yaml(roots, answers.values(), source.name, origin),
        answers=tuple(answers.values()),
        open_problems=tuple(problem for problem in problems if not (is_new and _is_about_agent(problem))),
        agent=agent,
        is_unchecked=is_unchecked,
    )


def _list_importers() -> tuple[str, ...]:
    return tuple(candidate.name for candidate in Catalog.discover(kinds=("importer",)).candidates("importer"))


def _list_aligned() -> Mapping[str, Alignment]:
    """Return the alignments of the installed backbones that have one; importing a backbone's class is light."""
    found = {}
    for candidate in Catalog.discover(kinds=("backbone",)).candidates("backbone"):
        try:
            alignment = read_traits(load(candidate), BackboneTraits).alignment
        except AstunerError:
            continue  # `plugin list` says what it lacks
        if alignment is not None:
            found[candidate.name] = alignment
    return found


def _read_source(source: Path) -> ShellOverrides:
    try:
        text = source.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError([Problem(message=f"the file cannot be read: {error.strerror}.", file=source)]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([Problem(message=f"the file is not UTF-8 text: {error.reason}.", file=source)]) from error
    if source.suffix in (".sh", ".bash"):
        return read_shell_overrides(text, source)
    values = read_yaml(text, source).values
    if not isinstance(values, dict) or not values:
        raise ConfigError([Problem(message="the file must be a mapping of keys.", file=source)])
    return ShellOverrides(tree=values)


def _resolve_own_keys(values: Mapping[str, Any]) -> Tree:
    """Replace what refers to other keys of the file, which will have other names; the environment is read by the run."""
    resolved = Interpolation(dict(values)).resolve()

    def choose(value: Any, path: Any) -> Any:
        found = resolved
        for part in path:
            found = found[part]
        return value if isinstance(value, str) and "oc.env" in value else found

    tree: Tree = change_leaves(values, choose)
    return tree


def _complete(translation: Translation, values: Mapping[str, Any]) -> Translation:
    """Answer each leaf: one that an importer does not mention has the name of its section's answer, or its own."""
    given = {answer.key: answer for answer in translation.answers}
    answers = []
    for leaf in flatten(values):
        parts = leaf.split(".")
        above = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
        answer = next((given[key] for key in above if key in given), None)
        if answer is None:
            answer = Answer(key=leaf, kind="translated", keys=(leaf,))
        elif answer.key != leaf:
            answer = evolve(answer, key=leaf, keys=tuple(key + leaf[len(answer.key) :] for key in answer.keys))
        answers.append(answer)
    return evolve(translation, answers=tuple(answers))


def _add_tasks(roots: Tree) -> None:
    """Name a file for the tasks where the source names none that can be read here, so that it is the user's to provide."""
    if get(roots, f"{ROOT}.task_reader.type") is None:
        put(roots, f"{ROOT}.task_reader", {"type": "dataset_file", "dataset_file": {"training": {"file_path": TASKS_FILE}}})


def _drop_unset(roots: Tree, answers: dict[str, Answer]) -> None:
    """Leave out what the environment would have to say and does not, unless only the user can say it: the model, the data."""
    for key, value in flatten(roots).items():
        names = [name for name in _VARIABLE.findall(str(value)) if name not in os.environ]
        if names:
            message = f"it comes from the environment variable {names[0]}, which is not set; {key} is the key to set"
            _drop(Problem(key=key, message=message), roots, answers)


def _drop_faults(
    roots: Tree, answers: dict[str, Answer], alignment: Alignment | None, target: Path
) -> tuple[Sequence[Problem], bool]:
    """Leave out what this configuration may not hold, each with the reason; return what is left to the user."""
    ask_trainer = True
    problems: list[Problem] = []
    for _ in range(MOST_ROUNDS):
        loaded = _load(roots, target)
        problems = [*loaded.problems]
        if alignment is not None and all(_is_for_the_user(problem.key or "") for problem in problems):
            try:
                problems += align(alignment, loaded, ask_trainer=ask_trainer).problems
            except (AstunerError, ImportError):
                ask_trainer = False
                problems += map(loaded.secrets.hide_in_problem, align(alignment, loaded, ask_trainer=False).problems)
        if sum(_drop(problem, roots, answers) for problem in problems) == 0:
            break
    problems += map(loaded.secrets.hide_in_problem, find_missing_files(loaded))
    return [evolve(problem, file=None, line=None) for problem in problems], not ask_trainer


def _load(roots: Tree, target: Path) -> LoadedConfig:
    # Beside the target, from where its relative paths start.
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", dir=target.parent, encoding="utf-8") as file:
        file.write(dump_yaml(roots))
        file.flush()
        return examine_config(Path(file.name))


def _drop(problem: Problem, roots: Tree, answers: dict[str, Answer]) -> bool:
    """Leave out the keys that a problem is about, or else those that it names, if they came from the source."""
    wrong = problem.key or ""
    placed = {
        key: answer
        for key, answer in answers.items()
        if answer.kind == "translated" and not any(_is_for_the_user(ours) for ours in answer.keys)
    }
    meant = [key for key, answer in placed.items() if any(_is_part(wrong, ours) or _is_part(ours, wrong) for ours in answer.keys)]
    named = [key for key in placed if re.search(rf"(?<![\w.]){re.escape(key)}(?![\w.])", problem.message)]
    for key in meant or named:
        for ours in placed[key].keys:
            _remove(roots, ours)
        answers[key] = Answer(key=key, kind="dropped", reason=problem.message.rstrip("."))
    return bool(meant or named)


def _is_part(key: str, section: str) -> bool:
    return key == section or key.startswith((f"{section}.", f"{section}["))


def _is_for_the_user(key: str) -> bool:
    """Whether a key stays although something is wrong with it: it names a file of the user's."""
    return key.startswith(USERS_FILES)


def _remove(roots: Tree, key: str) -> None:
    *above, last = key.split(".")
    section = get(roots, ".".join(above)) if above else roots
    if isinstance(section, dict):
        section.pop(last, None)
        if not section and above:
            _remove(roots, ".".join(above))


def _is_about_agent(problem: Problem) -> bool:
    """Whether a problem is about `agent.py`, which is not written yet."""
    return problem.key in (f"{ROOT}.rollout.user_workflow", f"{ROOT}.task_judge.judge_protocol")


def write_yaml(roots: Mapping[str, Any], answers: Iterable[Answer], source: str, origin: str) -> str:
    """Return the YAML of a translated configuration, whose comments say what was left out of a source and why."""
    lines = [f"# From {source}, a configuration of {origin}."]
    answers = tuple(answers)
    for title, kind in (("Left out", "dropped"), ("Not the same", "translated")):
        noted = [answer for answer in answers if answer.kind == kind and answer.reason]
        if noted:
            lines.append(f"# {title}:")
            lines += [f"#   {answer.key}: {answer.reason}" for answer in noted]
    order = list(attrs.fields_dict(Config))
    ours = dict(sorted(roots[ROOT].items(), key=lambda item: order.index(item[0]) if item[0] in order else len(order)))
    return "\n".join(map(_keep_in_line, lines)) + "\n" + dump_yaml({**roots, ROOT: ours})


def _keep_in_line(text: str) -> str:
    """Return a comment without what would end it, or may not be in a YAML: a value of the source can have line breaks."""
    return "".join(sign if sign.isprintable() else " " for sign in text)
