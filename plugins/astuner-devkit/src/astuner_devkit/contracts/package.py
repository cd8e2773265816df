"""The contract of packages: what a distribution's metadata promises exists, is light, and conflicts with nothing."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import Distribution, EntryPoint, PackageNotFoundError, distribution, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar
from unittest import SkipTest

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from astuner.contract.errors import PluginError
from astuner.contract.protocols.traits import find_options_class
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.hooks import Hooks
from astuner.settings.plugins.kinds import GROUPS
from astuner.settings.plugins.requirements import SHOWS_RUNS, WORKS_WITHOUT
from astuner.shared.known_packages import CORE, read_known_packages
from astuner_devkit.contracts.base import Rules, self_contained
from astuner_devkit.contracts.fresh_imports import try_imports
from astuner_devkit.contracts.option_fields import describe_fields
from astuner_devkit.public_api import internal_imports

NAME = re.compile(r"[a-z][a-z0-9_]*")
COMMAND = re.compile(r"([a-z]+\.)?[a-z][a-z0-9_-]*")

HEAVY = (
    "datasets",
    "jax",
    "openai",
    "pandas",
    "peft",
    "ray",
    "scipy",
    "sklearn",
    "tensorflow",
    "torch",
    "transformers",
    *(name for names in read_known_packages().heavy_modules.values() for name in names),
)
"""Modules that no entry point imports before it is used: choosing a component is instant, and works where they are missing."""


class PackageContract(Rules):
    """Rules for a distribution that offers components. All of them run in `astuner plugin check`."""

    distribution: ClassVar[str]
    """Its name, as `pip install` takes it."""

    @self_contained
    def test_it_is_installed(self) -> None:
        """The distribution is installed, so that its metadata can be read."""
        self._dist()

    @self_contained
    def test_it_has_a_summary(self) -> None:
        """It says in one line what it is: `description` in pyproject.toml."""
        summary = self._metadata("Summary")
        assert summary.strip() not in ("", "UNKNOWN"), f"{self._blame}: has no summary; set `description` in pyproject.toml"

    @self_contained
    def test_it_says_which_pythons_it_needs(self) -> None:
        """It says which versions of Python it runs on: `requires-python` in pyproject.toml."""
        found = self._metadata("Requires-Python")
        assert found, f"{self._blame}: does not say which versions of Python it runs on; set `requires-python` in pyproject.toml"

    @self_contained
    def test_it_is_made_for_a_range_of_core(self) -> None:
        """It depends on a range of astuner-core with both bounds, in which the installed one lies."""
        if self._is_core:
            raise SkipTest("this is astuner-core itself")
        core = self._needed_core()
        remedy = f'write "{CORE}>=0.2,<0.3" in its dependencies'
        assert core, f"{self._blame}: does not depend on {CORE}; {remedy}"
        operators = {part.operator for one in core for part in one.specifier}
        both = operators & {"==", "~=", "==="} or (operators & {">", ">="} and operators & {"<", "<="})
        assert both, f"{self._blame}: depends on '{core[0]}', which lacks a lower or an upper bound; {remedy}"
        running = version(CORE)
        fits = all(one.specifier.contains(running, prereleases=True) for one in core)
        assert fits, f"{self._blame}: depends on '{core[0]}', and {running} is installed; widen the range once it is tested"

    @self_contained
    def test_it_offers_something(self) -> None:
        """It has at least one entry point in a group of astuner's, and none in a group that does not exist."""
        groups = {group for group in GROUPS.values() if group}
        named = [entry for entry in self._dist().entry_points if entry.group.startswith("astuner.")]
        mine = [entry for entry in named if entry.group not in (SHOWS_RUNS, WORKS_WITHOUT)]
        unknown = sorted({entry.group for entry in mine} - groups)
        if unknown:
            close = difflib.get_close_matches(unknown[0], sorted(groups), n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"groups are {', '.join(sorted(groups))}"
            raise AssertionError(f"{self._blame}: the entry-point group '{unknown[0]}' does not exist; {hint}")
        assert mine, f"{self._blame}: offers nothing; add an entry point in one of the groups {', '.join(sorted(groups))}"

    @self_contained
    def test_what_shows_runs_is_a_command(self) -> None:
        """What it names in the group `astuner.shows_runs` are commands of its own."""
        points = self._dist().entry_points
        commands = {entry.name for entry in points if entry.group == GROUPS["command"]}
        wrong = sorted({entry.name for entry in points if entry.group == SHOWS_RUNS} - commands)
        assert not wrong, f"{self._blame}: '{wrong[0]}' in {SHOWS_RUNS} is none of its commands, which are in {GROUPS['command']}"

    @self_contained
    def test_names_are_plain(self) -> None:
        """Entry points are named as YAML keys are: lower-case letters, digits and underscores.

        Commands are typed, so that they may have hyphens; the group of a command stands before a dot.
        """
        for entry in self._entries():
            pattern = COMMAND if entry.group == GROUPS["command"] else NAME
            assert pattern.fullmatch(entry.name), (
                f"{self._blame}: the name '{entry.name}' in {entry.group} does not match {pattern.pattern}"
            )

    @self_contained
    def test_names_of_core_are_not_taken(self) -> None:
        """No entry point has the name of one of core's own of the same kind: the name alone would become ambiguous."""
        if self._is_core:
            raise SkipTest("this is astuner-core itself")
        core = {(entry.group, entry.name) for entry in distribution(CORE).entry_points}
        taken = [entry for entry in self._entries() if (entry.group, entry.name) in core]
        assert not taken, f"{self._blame}: '{taken[0].name}' in {taken[0].group} is a name of {CORE}'s own; choose another"

    @self_contained
    def test_targets_exist(self) -> None:
        """Each entry point leads to something that can be imported in a fresh process."""
        for entry, error, _ in self._import_all():
            assert not error, f"{self._blame}: {entry.name} = {entry.value} in {entry.group} cannot be imported: {error}"

    @self_contained
    def test_importing_is_light(self) -> None:
        """Importing an entry point imports nothing heavy: that waits until the component is used."""
        for entry, _, heavy in self._import_all():
            assert not heavy, (
                f"{self._blame}: importing {entry.value} imports {', '.join(heavy)}; move these imports into the functions that "
                "need them"
            )

    @self_contained
    def test_options_of_every_component_are_documented(self) -> None:
        """Each field of the `Options` of every component has a string under it."""
        for entry in self._entries():
            options = find_options_class(_load(entry))
            bare = [name for name, doc in describe_fields(options).items() if not doc]
            assert not bare, (
                f'{self._blame}: {entry.value}: document {", ".join(bare)}: write a """docstring""" under each field of Options'
            )

    @self_contained
    def test_hooks_register(self) -> None:
        """Each extension in `astuner.hooks` has hook methods that are spelt right and take arguments that their hooks have."""
        for entry in self._entries():
            target = _load(entry)
            if entry.group == GROUPS["hook"] and target is not None:
                try:
                    found = Hooks(Catalog()).register(target, f"{self._blame}: {entry.value}")
                except PluginError as error:
                    raise AssertionError(str(error)) from error
                assert found, f"{self._blame}: {entry.value} has no method marked @astuner.hookimpl"

    @self_contained
    def test_it_imports_only_what_is_public(self) -> None:
        """Of core, its modules import only those that docs/api.md lists; others may change in any release.

        A package that requires one exact version of core is released with it, and may import all of it.
        """
        if self._is_core:
            raise SkipTest("this is astuner-core itself")
        if any(part.operator == "==" and "*" not in part.version for one in self._needed_core() for part in one.specifier):
            raise SkipTest(f"it requires one exact version of {CORE}")
        found = [one.describe(root) for root, files in self._sources().items() for one in internal_imports(files)]
        assert not found, "\n".join((f"{self._blame}: import only what is public", *found))

    @property
    def _blame(self) -> str:
        return f"package {self.distribution}"

    @property
    def _is_core(self) -> bool:
        return canonicalize_name(self.distribution) == CORE

    def _dist(self) -> Distribution:
        try:
            return distribution(self.distribution)
        except PackageNotFoundError as error:
            raise AssertionError(f"{self._blame} is not installed; `pip install -e .` in its directory") from error

    def _needed_core(self) -> Sequence[Requirement]:
        needed = [Requirement(line) for line in self._dist().requires or ()]
        return [one for one in needed if canonicalize_name(one.name) == CORE and "extra" not in str(one.marker or "")]

    def _metadata(self, field: str) -> str:
        return next(iter(self._dist().metadata.get_all(field) or ()), "")

    def _entries(self) -> Sequence[EntryPoint]:
        groups = set(GROUPS.values())
        return [entry for entry in self._dist().entry_points if entry.group in groups]

    def _sources(self) -> Mapping[Path, Sequence[Path]]:
        """Return the source files by the directory from which they are imported."""
        installed = [Path(str(file.locate())) for file in self._dist().files or () if file.suffix == ".py"]
        if installed:
            return {Path(str(self._dist().locate_file(""))): installed}
        # An editable installation lists no sources: they are where its modules are found.
        found: dict[Path, Sequence[Path]] = {}
        for top in sorted({entry.module.partition(".")[0] for entry in self._entries()}):
            spec = find_spec(top)
            if spec is not None and spec.origin:
                origin = Path(spec.origin)
                is_package = origin.name == "__init__.py"
                root = origin.parent.parent if is_package else origin.parent
                found[root] = [*found.get(root, ()), *(sorted(origin.parent.rglob("*.py")) if is_package else [origin])]
        return found

    def _import_all(self) -> Sequence[tuple[EntryPoint, str, Sequence[str]]]:
        """Import every entry point in a fresh process; return each with its error and the heavy modules it imported."""
        entries = self._entries()
        values = [entry.value.partition("[")[0].replace(" ", "") for entry in entries]
        return [(entry, *found) for entry, found in zip(entries, try_imports(values, HEAVY), strict=True)]


def _load(entry: EntryPoint) -> Any:
    """Return the target; None for one that cannot be imported, which another rule reports."""
    try:
        return entry.load()
    except (Exception, SystemExit):  # noqa: BLE001  # a module may raise anything on import
        return None
