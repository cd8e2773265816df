"""The native configuration of a trainer: what follows from the user's keys, and where each of its values comes from."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from attrs import field, frozen

from astuner.contract.errors import Problem
from astuner.settings.config.alignment import LEAVE, Alignment, Row
from astuner.settings.config.places import ROOT, Place, format_place, make_problem
from astuner.settings.config.schema_keys import walk_schema
from astuner.settings.config.structure_errors import Fault, find_closest
from astuner.settings.config.trees import Tree, flatten, get, merge

if TYPE_CHECKING:
    from astuner.settings.config.loading import LoadedConfig

__all__ = ["Native", "NativeValue", "align"]

Source = Literal["default", "constant", "alignment", "override", "set"]


@frozen(kw_only=True)
class NativeValue:
    """One native key, and why it has its value."""

    key: str
    value: Any
    source: Source
    """`default` of the trainer, `constant` of the backbone, `alignment` with our keys, `override` by the raw section of the YAML,
    or by `--set`."""
    because: str = ""
    """Our keys with their places, the reason of a constant, or the place of an override."""


@frozen(kw_only=True)
class Native:
    """The native configuration of a run."""

    root: str
    tree: Mapping[str, Any] = field(factory=dict)
    values: tuple[NativeValue, ...] = ()
    """Every leaf, ordered by key."""
    notices: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def align(alignment: Alignment, loaded: LoadedConfig, *, ask_trainer: bool = True) -> Native:
    """Return the native configuration of a configuration, and its problems.

    `ask_trainer` False leaves out what may import the trainer, its defaults and its own check: then not all is found.
    """
    return _NativeBuilder(alignment, loaded, ask_trainer).build()


class _NativeBuilder:
    def __init__(self, alignment: Alignment, loaded: LoadedConfig, ask_trainer: bool) -> None:
        self._alignment, self._loaded, self._ask_trainer = alignment, loaded, ask_trainer
        self._ours = flatten(loaded.resolved)
        self._ours |= _collect_open_sections(loaded)
        self._raw: Mapping[str, Any] = loaded.native.get(alignment.root, {})
        self._sources: dict[str, NativeValue] = {}
        self._problems: list[Problem] = []
        self._notices: list[str] = []

    def build(self) -> Native:
        """Merge defaults, constants, rows and the raw section, in this order."""
        alignment = self._alignment
        defaults = dict(alignment.defaults()) if alignment.defaults is not None and self._ask_trainer else {}
        known = flatten(defaults)
        tree: Tree = defaults
        self._record(known, "default", "")
        for constant in alignment.constants:
            tree = self._add_value(tree, constant.native, constant.value, "constant", constant.reason)
        for row in alignment.rows:
            tree = self._apply(tree, row)
        aligned = dict(self._sources)
        self._override(aligned, known)
        tree = merge(tree, self._raw)
        if self._ask_trainer and not self._problems:
            self._problems += [self._locate_fault(fault) for fault in alignment.check(tree)]
        leaves = flatten(tree)
        values = [self._sources[key] for key in sorted(leaves) if key in self._sources]
        return Native(
            root=alignment.root, tree=tree, values=tuple(values), notices=tuple(self._notices), problems=tuple(self._problems)
        )

    def _apply(self, tree: Tree, row: Row) -> Tree:
        given = [key for key in row.keys if key in self._loaded.user_keys]
        if row.only_if_set and not given:
            return tree
        try:
            value = row.compute(self._ours)
        except ValueError as error:
            key = (given or row.keys)[0]
            self._problems.append(make_problem(f"{ROOT}.{key}", str(error), self._loaded.locate))
            return tree
        if value is LEAVE:
            return tree
        because = ", ".join(
            f"{key}{_put_in_brackets(self._loaded.locate(f'{ROOT}.{key}') if key in given else None)}" for key in row.keys
        )
        for native in row.native:
            tree = self._add_value(tree, native, value, "alignment", because)
        return tree

    def _add_value(self, tree: Tree, native: str, value: Any, source: Source, because: str) -> Tree:
        above: Any = value
        for part in reversed(native.split(".")):
            above = {part: above}
        leaves = flatten(value, native) if isinstance(value, Mapping) and value else {native: value}
        self._record(leaves, source, because)
        return merge(tree, above)

    def _override(self, aligned: Mapping[str, NativeValue], known: Mapping[str, Any]) -> None:
        """Record the user's raw section, and check it against our own keys."""
        for key, value in flatten(self._raw).items():
            place = f"{self._alignment.root}.{key}"
            by_command = place in self._loaded.overridden_keys
            reason = next((reason for pattern, reason in self._alignment.frozen.items() if fnmatchcase(key, pattern)), None)
            if reason is not None:
                self._problems.append(make_problem(place, f"cannot be set here: {reason}.", self._loaded.locate))
                continue
            if known and not _is_known(key, known):
                message = f"the backbone '{self._loaded.config.backbone}' has no such native key."
                self._problems.append(make_problem(place, message, self._loaded.locate, find_closest(key, known)))
                continue
            self._check_conflicts(place, key, aligned)
            at = format_place(self._loaded.locate(place))
            self._record({key: value}, "set" if by_command else "override", at)

    def _check_conflicts(self, place: str, key: str, aligned: Mapping[str, NativeValue]) -> None:
        """Refuse a raw key together with a `--set` of ours that means the same; report one that wins over a key of the YAML."""
        for row in self._alignment.rows:
            if key not in row.native and not any(key.startswith(f"{native}.") for native in row.native):
                continue
            for ours in row.keys:
                if ours in self._loaded.overridden_keys:
                    message = (
                        f"--set {ours} decides the same native key, and this raw value would win over it. Remove one of the two."
                    )
                    self._problems.append(make_problem(place, message, self._loaded.locate))
                elif ours in self._loaded.user_keys:
                    self._notices.append(f"{place} wins over {ours}{_put_in_brackets(self._loaded.locate(f'{ROOT}.{ours}'))}.")

    def _record(self, leaves: Mapping[str, Any], source: Source, because: str) -> None:
        for key, value in leaves.items():
            self._sources[key] = NativeValue(key=key, value=value, source=source, because=because)

    def _locate_fault(self, fault: Fault) -> Problem:
        native = ".".join(map(str, fault.path))
        noted = self._sources.get(native)
        if noted is not None and noted.source == "alignment":
            row = next(row for row in self._alignment.rows if native in row.native)
            key = next((key for key in row.keys if key in self._loaded.user_keys), row.keys[0])
            return make_problem(f"{ROOT}.{key}", fault.message, self._loaded.locate, fault.suggestion)
        return make_problem(f"{self._alignment.root}.{native}", fault.message, self._loaded.locate, fault.suggestion)


def _collect_open_sections(loaded: LoadedConfig) -> Mapping[str, Any]:
    """Return the sections whose keys are free, by the name that the schema gives them: `rollout.*`, `services.*`."""
    values: dict[str, Any] = {}
    for key in walk_schema():
        if key.endswith(".*"):
            part, resolved = attrgetter(key[:-2])(loaded.config), get(loaded.resolved, key[:-2])
            names = part if isinstance(part, Mapping) else part.sections
            values[key] = {name: resolved[name] for name in names}
    return values


def _is_known(key: str, known: Mapping[str, Any]) -> bool:
    # An empty section of the defaults takes any keys.
    return any(key == other or (key.startswith(f"{other}.") and value in (None, {})) for other, value in known.items())


def _put_in_brackets(place: Place | None) -> str:
    return f" ({format_place(place)})" if place is not None else ""
