"""The base of all contracts: how a rule is written, run and skipped.

A contract is a class of rules (`test_*` methods). An author subclasses it in a test module, names the component, and pytest
runs every rule; `astuner plugin check` runs those rules that need no data from the author. Contracts therefore use no pytest:
a rule fails with an `AssertionError` that says what is wrong and what to do, and is skipped with `unittest.SkipTest`.
"""

from __future__ import annotations

import importlib
import inspect
import pickle
import sys
from collections.abc import Callable, Mapping
from functools import cache, reduce
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from unittest import SkipTest

import attrs

from astuner.contract.errors import ConfigError
from astuner.contract.protocols import Candidate, RunInfo
from astuner.contract.protocols.traits import find_options_class
from astuner.settings.plugins.catalog import Catalog
from astuner_devkit.contracts.option_fields import describe_fields
from astuner_devkit.contracts.shape import find_call_problem, forbid_errors
from astuner_devkit.run_infos import run_info

SELF_CONTAINED = "astuner_self_contained"

Rule = TypeVar("Rule", bound=Callable[..., None])


def self_contained(rule: Rule) -> Rule:
    """Mark a rule that needs no data from the author, is cheap and uses no network: `astuner plugin check` runs it."""
    setattr(rule, SELF_CONTAINED, True)
    return rule


class Rules:
    """A class of rules, which are its methods `test_*`; each takes nothing, or `tmp_path`, an empty directory."""


class Contract(Rules):
    """Rules for one component. Subclass the contract of its kind as `class TestMine(JudgeContract)`."""

    kind: ClassVar[str]
    """In the singular, for example `judge`."""
    component: ClassVar[Any] = None
    """The target of the entry point: the class (or object) itself, or `package.module:Class`."""
    options: ClassVar[Mapping[str, Any]] = {}
    """The component's options, as a user writes them in its section of the YAML."""

    def prepare(self, directory: Path) -> None:
        """Write the files that the options name. Relative paths of a YAML start at `directory`."""

    def run_info(self, directory: Path) -> RunInfo:
        """Return the info of the run that the component is made in."""
        return run_info(directory)

    @property
    def _blame(self) -> str:
        """How messages name the component."""
        return self.candidate().blame

    def make(self, directory: Path) -> Any:
        """Return the component, made as core makes it: options structured strictly, then `from_run` or the constructor."""
        from astuner.settings.plugins.options import build_options

        self.prepare(directory)
        info = self.run_info(directory)
        info.directory.mkdir(parents=True, exist_ok=True)
        return self._construct(build_options(self.target(), self.options, key=self.kind), info)

    def _construct(self, options: Any, info: RunInfo) -> Any:
        from astuner.settings.plugins.drivers import construct

        return construct(self.candidate(), self.target(), options, info)

    def _make_or_skip(self, directory: Path) -> Any:
        """Return the component; skip the rule if it needs options and its author has set none."""
        try:
            return self.make(directory)
        except ConfigError as error:
            if self.options:
                raise
            raise SkipTest(f"it needs options: set `options` ({error})") from error

    @classmethod
    def target(cls) -> Any:
        """Return the object that `component` names."""
        if cls.component is None:
            raise SkipTest(f"{cls.__name__} names no component: set `component`")
        if isinstance(cls.component, str):
            module, _, attribute = cls.component.partition(":")
            return reduce(getattr, attribute.split("."), importlib.import_module(module))
        # Bypass descriptors: a plain function must not become a method.
        found = next(vars(base)["component"] for base in cls.__mro__ if "component" in vars(base))
        return found.__func__ if isinstance(found, staticmethod) else found

    @classmethod
    def candidate(cls) -> Candidate:
        """Return the component's catalog entry, for messages; by its path if no distribution offers it."""
        return _find_candidate(cls)  # type: ignore[arg-type] # mypy considers a class unhashable

    @self_contained
    def test_it_is_made_as_core_makes_it(self) -> None:
        """The classmethod `from_run(options, run_info)`, or else the constructor, takes what core gives: options, or nothing."""
        target = self.target()
        if not isinstance(target, type):
            return
        if hasattr(target, "from_run"):
            bound = isinstance(inspect.getattr_static(target, "from_run"), classmethod | staticmethod)
            assert bound, f"{self._blame}: from_run must be a classmethod: write `@classmethod` above it"
            wrong = find_call_problem(target.from_run, ["options", "run_info"])
            assert not wrong, f"{self._blame}: core calls from_run(options, run_info), which does not fit: {wrong}"
        else:
            gets = ["options"] if find_options_class(target) is not None else []
            wrong = find_call_problem(target, gets)
            remedy = "let it take the options" if gets else "without `Options` it takes no argument"
            assert not wrong, f"{self._blame}: core calls {target.__name__}({', '.join(gets)}): {wrong}; {remedy}"

    @self_contained
    def test_options_are_an_attrs_class(self) -> None:
        """`Options`, if defined, is a frozen attrs class, so that it is checked strictly and crosses processes."""
        options: Any = find_options_class(self.target())
        if options is None:
            return
        is_attrs = isinstance(options, type) and attrs.has(options)
        assert is_attrs, f"{self._blame}: Options must be an attrs class (`@attrs.frozen(kw_only=True)`), got {options!r}"
        assert options.__setattr__ is not object.__setattr__, f"{self._blame}: Options must be frozen (`@attrs.frozen`)"

    @self_contained
    def test_options_are_documented(self) -> None:
        """Each field of `Options` has a string under it: what `plugin show`, the editor and the reference print."""
        options = find_options_class(self.target())
        bare = [name for name, doc in describe_fields(options).items() if not doc]
        assert not bare, f'{self._blame}: document {", ".join(bare)}: write a """docstring""" under each field'

    def test_options_cross_processes(self) -> None:
        """Options survive pickling, since each rollout process makes its own components from them."""
        from astuner.settings.plugins.options import build_options

        options = build_options(self.target(), self.options, key=self.kind)
        with forbid_errors(f"{self._blame}: pickling Options", "hold plain values"):
            again = pickle.loads(pickle.dumps(options))
        assert again == options, f"{self._blame}: Options changed on their way to another process: {options} -> {again}"


@cache
def _find_candidate(contract: type[Contract]) -> Candidate:
    # Every message needs it, and reading the installed distributions takes milliseconds.
    target = contract.target()
    for offered in Catalog.discover(kinds=(contract.kind,)).all():
        if _find_imported(offered.target) is target:
            return offered
    name = getattr(target, "__qualname__", type(target).__name__)
    module = getattr(target, "__module__", "?")
    return Candidate(kind=contract.kind, name=name, target=f"{module}:{name}", source="path")


def _find_imported(target: str) -> Any:
    """Return the object `package.module:Class` if its module is imported, else None."""
    module, _, attribute = target.partition(":")
    found: Any = sys.modules.get(module)
    for part in attribute.split("."):
        found = getattr(found, part, None)
    return found
