"""The arguments `--set a.b=c` and `--backbone` as a tree to lay over the YAML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import define, evolve, field

from astuner.contract.errors import ConfigError, Problem
from astuner.settings.config.aliases import ROOT_ALIASES
from astuner.settings.config.places import ROOT, SET, Place, format_path
from astuner.settings.config.trees import Tree, put
from astuner.settings.config.yaml_lines import read_yaml

_KEY = re.compile(r"[\w.\-\[\]]*")


@define(eq=False)
class Overrides:
    """The values set on the command line."""

    native_roots: Sequence[str] = ()
    """Roots of raw native keys."""
    tree: Tree = field(factory=dict)
    """By root: `{"astuner": {...}, "acme": {...}}`."""
    places: dict[str, Place] = field(factory=dict)
    """Of each key and of the sections around it."""
    problems: list[Problem] = field(factory=list)

    def add(self, item: str) -> None:
        """Take in one `a.b=c`; the value is read as YAML."""
        typed, equals, text = item.partition("=")
        typed = typed.strip()
        place = Path(f"{SET} {typed}")
        path = typed.split(".")
        if not equals or not all(path):
            # Without `=` the rest may be a value, and that of a secret.
            place = Path(f"{SET} {_KEY.match(typed)[0]}")  # type: ignore[index]  # it matches any text
            self.problems.append(Problem(message="write it as KEY=VALUE, for example rollout.temperature=0.7.", file=place))
            return
        root = path[0] if path[0] in self.native_roots else ROOT
        if path[0] in (ROOT, *ROOT_ALIASES, *self.native_roots):
            path = path[1:]
        if not path:
            self.problems.append(Problem(message="name a key below this root.", file=place))
            return
        try:
            value = read_yaml(text, place).values
        except ConfigError as error:
            # The line of a one-line value is not informative.
            self.problems += [evolve(problem, line=None) for problem in error.problems]
            return
        self._put([root, *path], value, place)

    def choose_backbone(self, name: str) -> None:
        """Take in `--backbone`, which wins over `--set backbone=`."""
        self._put([ROOT, "backbone"], name, Path("--backbone"))

    def _put(self, path: list[str], value: Any, place: Path) -> None:
        put(self.tree, ".".join(path), value)
        for depth in range(1, len(path)):
            self.places.setdefault(format_path(path[:depth]), (place, 0))
        for key in _list_paths(value, format_path(path)):
            self.places[key] = (place, 0)


def read_overrides(items: Sequence[str], backbone: str | None, native_roots: Sequence[str] = ()) -> Overrides:
    """Read all arguments; a later one wins over an earlier one."""
    overrides = Overrides(native_roots=native_roots)
    for item in items:
        overrides.add(item)
    if backbone is not None:
        overrides.choose_backbone(backbone)
    return overrides


def _list_paths(value: Any, start: str) -> list[str]:
    found = [start]
    if isinstance(value, dict):
        for key, item in value.items():
            found += _list_paths(item, format_path((key,), start))
    return found
