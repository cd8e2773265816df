"""A trainer's own configuration in our keys: the alignment of its backbone, read backwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from astuner.contract.errors import AstunerError
from astuner.settings.config.alignment import Alignment, Import
from astuner.settings.config.importers import Answer, Translation
from astuner.settings.config.structure_errors import find_closest
from astuner.settings.config.trees import Tree, flatten, get, put

__all__ = ["translate_native"]

DEFAULT = "that is the trainer's default"
OURS = "that is our default too"
EMPTY = "the section is empty"
LIKENESS = 0.9
"""Of a misspelt key. Sections of other engines have names that are like those of the one that is driven."""


def translate_native(alignment: Alignment, backbone: str, values: Mapping[str, Any]) -> Translation:
    """Return our keys for a trainer's configuration, with an answer for each of its leaves.

    What the alignment decides from one of our keys becomes that key. What it does not decide stays below the backbone's root,
    unless the backbone refuses it there, or the trainer does not know it.
    """
    return _Translator(alignment, backbone, values).translate()


class _Translator:
    def __init__(self, alignment: Alignment, backbone: str, values: Mapping[str, Any]) -> None:
        self._alignment, self._values = alignment, values
        self._leaves = flatten(values)
        self._defaults = _ask_defaults(alignment)
        self._ours: Tree = {}
        self._native: Tree = {}
        self._answers: dict[str, Answer] = {}
        put(self._ours, "backbone", backbone)

    def translate(self) -> Translation:
        for one in self._alignment.imports:
            self._import(one)
        for key, value in self._leaves.items():
            if key not in self._answers:
                self._answers[key] = self._place(key, value)
        roots: Tree = {"astuner": self._ours}
        if self._native:
            roots[self._alignment.root] = self._native
        return Translation(roots=roots, answers=tuple(self._answers[key] for key in self._leaves))

    def _import(self, one: Import) -> None:
        covered = [leaf for native in one.native[: one.asks] for leaf in self._find_leaves(native) if leaf not in self._answers]
        if not covered:
            return
        values = [get(self._values, native) for native in one.native]
        try:
            found = one.value(*values)
        except ValueError as error:
            self._answers |= {leaf: Answer(key=leaf, kind="dropped", reason=str(error)) for leaf in covered}
            return
        if found is None:
            return
        for key, value in found.items():
            put(self._ours, key, value)
        keys = tuple(f"astuner.{key}" for key in found)
        note = one.note(*values) if one.note is not None else ""
        kind, reason = ("translated", note) if keys else ("ignored", OURS)
        self._answers |= {leaf: Answer(key=leaf, kind=kind, keys=keys, reason=reason) for leaf in covered}  # type: ignore[arg-type]

    def _find_leaves(self, native: str) -> Iterator[str]:
        return (leaf for leaf in self._leaves if leaf == native or leaf.startswith(f"{native}."))

    def _place(self, key: str, value: Any) -> Answer:
        if value == {}:
            return Answer(key=key, kind="ignored", reason=EMPTY)
        for row in self._alignment.rows:
            if key in row.native and row.value is None:
                put(self._ours, row.keys[0], value)
                return Answer(key=key, kind="translated", keys=(f"astuner.{row.keys[0]}",))
        for pattern, reason in self._alignment.frozen.items():
            if fnmatchcase(key, pattern):
                return Answer(key=key, kind="dropped", reason=reason)
        if self._defaults:
            if key in self._defaults and self._defaults[key] == value:
                return Answer(key=key, kind="ignored", reason=DEFAULT)
            if not _is_known(key, self._defaults):
                closest = find_closest(key, self._defaults, LIKENESS)
                hint = f"; did it mean {closest}?" if closest else ""
                return Answer(key=key, kind="dropped", reason=f"the trainer has no such key{hint}")
        put(self._native, key, value)
        return Answer(key=key, kind="translated", keys=(f"{self._alignment.root}.{key}",))


def _ask_defaults(alignment: Alignment) -> Mapping[str, Any]:
    """Return the trainer's defaults by dotted key; nothing if it is not installed here."""
    try:
        return flatten(alignment.defaults()) if alignment.defaults is not None else {}
    except (AstunerError, ImportError):
        return {}


def _is_known(key: str, known: Mapping[str, Any]) -> bool:
    return any(
        key == other or (value in (None, {}) and key.startswith(f"{other}.")) or other.startswith(f"{key}.")
        for other, value in known.items()
    )
