"""Configurations that are written for another trainer: an installed importer translates them before they are read.

An importer is a class in the entry-point group `astuner.importers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal, Protocol

from attrs import frozen

from astuner.contract.errors import ConfigError, Problem
from astuner.settings.config.places import Place
from astuner.settings.config.trees import Tree

GROUP = "astuner.importers"


@frozen(kw_only=True)
class Answer:
    """What becomes of a key of the other trainer, or of a whole section; paths are dotted, with their root."""

    key: str
    kind: Literal["translated", "ignored", "dropped"]
    """`ignored`: it has no meaning here. `dropped`: it has one, and none of our keys does the same."""
    keys: tuple[str, ...] = ()
    """The present keys."""
    reason: str = ""
    """Why its value is another one, why it has no meaning, or what took its place."""


@frozen(kw_only=True)
class Translation:
    """The same configuration in our keys."""

    roots: Mapping[str, Any]
    """By root: `astuner`, and those of backbones."""
    answers: tuple[Answer, ...] = ()
    """For every key that has another name or value, or is left out. Keys of a section that moves as a whole move with it."""


class Importer(Protocol):
    """Translates the configurations of another trainer. Made without arguments, in the driver, whenever a file is read."""

    def claims(self, values: Mapping[str, Any]) -> bool:
        """Whether a file is written for the other trainer; `values` are its root sections."""

    def translate(self, values: Mapping[str, Any], *, file: Mapping[str, Any] | None = None) -> Translation:
        """Translate a file, or what the command line sets for `file`, whose own keys are then below `astuner` already."""


@frozen(kw_only=True)
class ChosenImporter:
    """The importer that claims a file."""

    name: str
    importer: Importer
    values: Mapping[str, Any]
    """The file as it was written."""
    blame: str

    def translate(self, values: Mapping[str, Any], path: Path, *, is_file: bool) -> Translation:
        """Translate the file, or a tree of the command line; raises `ConfigError` with the blame if the importer fails."""
        file = None if is_file else self.values
        found: Translation = _call(lambda: self.importer.translate(values, file=file), self.blame, path)
        return found


def find_importer(values: Any, path: Path) -> ChosenImporter | None:
    """Return the installed importer that claims a file; raises `ConfigError` with the blame if one fails."""
    if not isinstance(values, Mapping):
        return None
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        blame = _format_blame(point)
        importer: Importer = _call(lambda point=point: point.load()(), blame, path)  # type: ignore[misc] # bound at once
        if _call(lambda importer=importer: importer.claims(values), blame, path):  # type: ignore[misc] # as above
            return ChosenImporter(name=point.name, importer=importer, values=values, blame=blame)
    return None


def load_importer(name: str, path: Path) -> ChosenImporter:
    """Return an installed importer; raises `ConfigError` with the blame if it fails, `KeyError` for an unknown name."""
    point = entry_points(group=GROUP)[name]
    blame = _format_blame(point)
    return ChosenImporter(name=name, importer=_call(lambda: point.load()(), blame, path), values={}, blame=blame)


def move_places(places: Mapping[str, Place], answers: Sequence[Answer]) -> dict[str, Place]:
    """Return where the translated keys are written; the longest old path that holds a key decides."""
    moves = {answer.key: answer.keys[0] for answer in answers if answer.keys}
    moved: dict[str, Place] = {}
    for key, place in places.items():
        olds = [old for old in moves if key == old or key.startswith((f"{old}.", f"{old}["))]
        old = max(olds, key=len, default="")
        moved.setdefault(moves[old] + key[len(old) :] if old else key, place)
    return moved


def format_notices(name: str, answers: Sequence[Answer]) -> list[str]:
    """Describe a translation: what is read as something else, what is ignored, and what took the place of the rest."""
    notices = []
    if moved := [_describe_move(answer) for answer in answers if answer.kind == "translated"]:
        notices.append(f"Read as a configuration of '{name}': {'; '.join(moved)}.")
    if ignored := [answer.key for answer in answers if answer.kind == "ignored"]:
        reasons = dict.fromkeys(answer.reason for answer in answers if answer.kind == "ignored" and answer.reason)
        notices.append(f"Ignored: {', '.join(ignored)}{_put_in_brackets('; '.join(reasons))}.")
    if dropped := [f"{answer.key}{_put_in_brackets(answer.reason)}" for answer in answers if answer.kind == "dropped"]:
        notices.append(f"Without effect here: {'; '.join(dropped)}.")
    return notices


def translate_overrides(chosen: ChosenImporter, tree: Tree, places: dict[str, Place], path: Path) -> list[str]:
    """Translate what the command line sets, in place; return the notices."""
    translation = chosen.translate(tree, path, is_file=False)
    moved = move_places(places, translation.answers)
    tree.clear()
    tree.update(translation.roots)
    places.clear()
    places.update(moved)
    return format_notices(chosen.name, translation.answers)


def _describe_move(answer: Answer) -> str:
    reason = _put_in_brackets(answer.reason)
    if [key.partition(".")[2] for key in answer.keys] == [answer.key.partition(".")[2] or None]:
        return f"{answer.key} has another value{reason}"
    return f"{answer.key} → {', '.join(answer.keys)}{reason}"


def _put_in_brackets(reason: str) -> str:
    return f" ({reason})" if reason else ""


def _call(function: Callable[[], Any], blame: str, path: Path) -> Any:
    try:
        return function()
    except (ConfigError, KeyboardInterrupt):
        raise
    except Exception as error:
        message = f"{blame} could not read it: {type(error).__name__}: {error}. Uninstall it, or report this to its authors."
        raise ConfigError([Problem(message=message, file=path)]) from error


def _format_blame(point: EntryPoint) -> str:
    where = "" if point.dist is None else f" from {point.dist.name} {point.dist.version}"
    return f"importer '{point.name}'{where}"
