"""How much interpolations would write: a few lines that each name the next one twice stand for gigabytes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import define, field, frozen

from astuner.settings.config.places import KeyPath

MOST_REFERENCES = 2000
"""That one value may follow, those of the values that it refers to included."""
MOST_CHARACTERS = 1 << 24
"""Of the text that one value may become."""
_REFERENCE = re.compile(r"\$\{\s*(\.*)([^{}:$]*)\}")
_STEP = re.compile(r"[^.\[\]\s]+")


@frozen
class Expansion:
    """What stands behind a value."""

    references: int = 0
    characters: int = 0

    def __add__(self, other: Expansion) -> Expansion:
        return Expansion(self.references + other.references, self.characters + other.characters)

    @property
    def is_too_large(self) -> bool:
        """Whether it is beyond the bounds."""
        return self.references > MOST_REFERENCES or self.characters > MOST_CHARACTERS


_NOTHING = Expansion()


@define(eq=False)
class Expansions:
    """Measures the values of a tree without resolving any."""

    tree: Mapping[str, Any]
    _known: dict[tuple[str, ...], Expansion] = field(factory=dict, init=False)

    def measure(self, path: KeyPath) -> Expansion:
        """Return the expansion of a value; references in a circle, or to what is not there, are left to who resolves them."""
        place = tuple(map(str, path))
        if place not in self._known:
            self._known[place] = _NOTHING  # as long as it is measured
            self._known[place] = self._add_up(_find(self.tree, place), place)
        return self._known[place]

    def _add_up(self, value: Any, place: tuple[str, ...]) -> Expansion:
        if isinstance(value, Mapping):
            return sum((self.measure((*place, key)) for key in value), _NOTHING)
        if isinstance(value, list):
            return sum((self.measure((*place, number)) for number in range(len(value))), _NOTHING)
        if not isinstance(value, str):
            return _NOTHING
        total = Expansion(0, len(value))
        for dots, name in _REFERENCE.findall(value):
            # One dot is the section of the value, each further one the section around.
            start = place[: len(place) - len(dots)] if dots else ()
            total += Expansion(1) + self.measure((*start, *_STEP.findall(name)))
        return total


def _find(tree: Any, place: tuple[str, ...]) -> Any:
    for step in place:
        if isinstance(tree, Mapping):
            tree = next((value for key, value in tree.items() if str(key) == step), None)
        elif isinstance(tree, list) and step.isdecimal() and int(step) < len(tree):
            tree = tree[int(step)]
        else:
            return None
    return tree
