"""What is sound of a configuration with faults, so that everything else in it can still be checked."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from copy import deepcopy
from typing import Any

import cattrs
from attrs import frozen

from astuner.contract.errors import Problem
from astuner.settings.config.model import Config
from astuner.settings.config.places import ROOT, KeyPath
from astuner.settings.config.structure_errors import Fault, FaultsError


def structure_sound_parts(tree: Mapping[str, Any], converter: cattrs.Converter) -> tuple[Config, tuple[Fault, ...]]:
    """Return the configuration of what fits, with defaults in place of what does not, and all faults."""
    faults: list[Fault] = []
    rest = dict(tree)
    while True:
        try:
            return converter.structure(rest, Config), tuple(faults)
        except FaultsError as error:
            found = [fault for fault in error.faults if fault not in faults]
            if not found:
                # A fault of what is left cannot be cut out.
                return Config(), tuple(faults)
            faults += found
            rest = deepcopy(rest)
            for fault in found:
                _remove(rest, fault.path)


@frozen
class SpoiltKeys:
    """The keys whose values are not known, because they, or their names, are wrong: defaults stand in for them."""

    keys: frozenset[str] = frozenset()

    @classmethod
    def of(cls, problems: Iterable[Problem], given: Container[str] = ()) -> SpoiltKeys:
        """Collect them, with the keys that misspelt ones were probably meant to be.

        `given` are dotted paths below the root that the user has set: a misspelt key beside one of them was not meant to be it.
        """
        found = set()
        for problem in problems:
            if problem.key is None:
                continue
            found.add(problem.key)
            if problem.suggestion is not None and (problem.kind == "unknown_key" or "." in problem.suggestion):
                above = problem.key.rpartition(".")[0]
                whole = problem.suggestion.startswith(f"{ROOT}.") or not above
                meant = problem.suggestion if whole else f"{above}.{problem.suggestion}"
                if meant.removeprefix(f"{ROOT}.") not in given:
                    found.add(meant)
        return cls(frozenset(found))

    def hold(self, key: str) -> bool:
        """Whether a key is one of them, or below one."""
        return any(key == spoilt or key.startswith((f"{spoilt}.", f"{spoilt}[")) for spoilt in self.keys)

    def explain(self, problem: Problem) -> bool:
        """Whether a problem may come from a default that stands in for one of them."""
        if problem.key is not None and self.hold(problem.key):
            return True
        names = (key.removeprefix(f"{ROOT}.") for key in self.keys)
        return any("." in name and name in problem.message for name in names)


def _remove(tree: dict[str, Any], path: KeyPath) -> None:
    """Remove what is at a path; an item of a list with its list, and what is missing with the section that lacks it."""
    above: list[tuple[Any, str | int]] = []
    node: Any = tree
    for step in path:
        above.append((node, step))
        node = node.get(step) if isinstance(node, Mapping) else node[step] if _has_item(node, step) else None
    for section, step in reversed(above):
        if isinstance(section, dict) and step in section:
            del section[step]
            return


def _has_item(node: Any, step: str | int) -> bool:
    return isinstance(node, list) and isinstance(step, int) and step < len(node)
