"""Where each key of a configuration was written: a line of the YAML, or an argument of the command line."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from attrs import field, frozen

from astuner.contract.errors import Problem, ProblemKind

ROOT = "astuner"
SET = "--set"

Place = tuple[Path, int]
"""A file and a line from 1. An argument of the command line is `(Path("--set a.b"), 0)`."""

Locate = Callable[[str], Place | None]
"""From a dotted key path to where it, or the nearest section around it, was written."""

KeyPath = tuple[str | int, ...]


def format_path(path: Iterable[str | int], start: str = "") -> str:
    """Write a path as `a.b[0].c`."""
    for part in path:
        start = f"{start}[{part}]" if isinstance(part, int) else f"{start}.{part}" if start else part
    return start


def format_place(place: Place | None) -> str:
    """Write a place as `tune.yaml:12`, or as the argument of the command line; empty for none."""
    if place is None:
        return ""
    file, line = place
    return f"{file.name}:{line}" if line else str(file)


def is_override(place: Place | None) -> bool:
    """Whether an argument of the command line is the place of a key."""
    return place is not None and str(place[0]).startswith(SET)


_ITEM = re.compile(r"\.(\d+)(?=[.\[]|$)")


@frozen
class Places:
    """The places of all keys of a configuration, by dotted path with its root; callable as a `Locate`."""

    by_key: Mapping[str, Place]
    native_roots: Collection[str] = ()
    """Roots allowed next to ours, whether or not the file has them."""
    _roots: frozenset[str] = field(init=False)

    @_roots.default
    def _find_roots(self) -> frozenset[str]:
        return frozenset({ROOT, *self.native_roots, *(key.partition(".")[0] for key in self.by_key)})

    def __call__(self, key: str) -> Place | None:
        """Return the place of a key, or of the nearest section around it. The root may be left out, and an item written `.0`."""
        if key.split(".")[0] not in self._roots:
            key = f"{ROOT}.{key}"
        if key not in self.by_key:
            key = _ITEM.sub(r"[\1]", key)
        while key:
            if key in self.by_key:
                return self.by_key[key]
            key = key[: max(key.rfind("."), key.rfind("["), 0)]
        return None


def make_problem(
    key: str, message: str, locate: Locate, suggestion: str | None = None, kind: ProblemKind | None = None
) -> Problem:
    """Make a problem with a key, at the place where the key was written."""
    file, line = locate(key) or (None, 0)
    return Problem(message=message, key=key, file=file, line=line or None, suggestion=suggestion, kind=kind)


def sort_problems(problems: Iterable[Problem]) -> list[Problem]:
    """Order problems as in the file, those of the command line first."""
    return sorted(problems, key=lambda problem: problem.line or 0)
