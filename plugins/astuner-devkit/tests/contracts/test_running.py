from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar
from unittest import SkipTest

import pytest
from attrs import define, field, frozen

from astuner.contract.errors import ConfigError, PluginError
from astuner.contract.protocols import RunInfo
from astuner.episodes.builtin.readers.dataset_file import DatasetFileReader
from astuner.settings.config.sections import DatasetFileSection
from astuner.settings.plugins.kinds import KINDS
from astuner_devkit.contracts import CONTRACTS, Contract, Outcome, list_rules, run_contract, self_contained


class Rules(Contract):
    """A contract of nothing in particular."""

    kind = "estimator"

    @self_contained
    def test_that_passes(self) -> None:
        """A rule that is kept.

        And more about it.
        """

    def test_that_fails(self) -> None:
        """A rule
        in two lines."""
        raise AssertionError("mend it")

    def test_that_breaks(self) -> None:
        """A rule in which something is raised."""
        raise KeyError("answer")

    def test_that_is_skipped(self) -> None:
        """A rule that does not apply."""
        raise SkipTest("not here")

    def test_that_writes(self, tmp_path: Path) -> None:
        """A rule with a directory."""
        (tmp_path / "only.txt").touch()
        assert len(list(tmp_path.iterdir())) == 1

    def test_that_writes_again(self, tmp_path: Path) -> None:
        """Another rule with a directory."""
        self.test_that_writes(tmp_path)

    not_a_rule = 1
    test_nor_this = None


class Component:
    @frozen(kw_only=True)
    class Options:
        """A good section."""

        weights: tuple[float, ...] = (1.0,)
        """What each is worth."""

    def __init__(self, options: Options) -> None:
        self.options = options


class Rebuilt(Rules):
    component = Component


def of_kind(component: Any, **given: Any) -> type[Contract]:
    return type("Bad", (Contract,), {"kind": "judge", "component": component, **given})


def outcome_of(rule: str, contract: type[Contract]) -> Outcome:
    return next(outcome for outcome in run_contract(contract) if outcome.rule == rule)


OWN = ["test_that_passes", "test_that_fails", "test_that_breaks", "test_that_is_skipped", "test_that_writes"]


def test_rules_come_in_the_order_of_writing_those_of_all_kinds_first() -> None:
    assert list_rules(Rules) == (*list_rules(Contract), *OWN, "test_that_writes_again")


def test_rules_that_need_an_author_can_be_left_out() -> None:
    assert [rule for rule in list_rules(Rules, only_self_contained=True) if rule in OWN] == ["test_that_passes"]


@pytest.mark.parametrize(
    ("rule", "status", "message"),
    [
        ("test_that_passes", "passed", ""),
        ("test_that_fails", "failed", "mend it"),
        ("test_that_breaks", "failed", "KeyError: 'answer'"),
        ("test_that_is_skipped", "skipped", "not here"),
        ("test_that_writes", "passed", ""),
        ("test_that_writes_again", "passed", ""),
    ],
)
def test_what_became_of_a_rule(rule: str, status: str, message: str) -> None:
    outcome = outcome_of(rule, Rules)
    assert (outcome.status, outcome.message.split("\n")[0]) == (status, message)


def test_a_rule_says_what_it_means_on_one_line() -> None:
    meanings = [outcome.meaning for outcome in run_contract(Rules) if outcome.rule in OWN]
    assert meanings[:2] == ["A rule that is kept.", "A rule in two lines."]


@pytest.mark.parametrize("kind", CONTRACTS)
def test_every_rule_of_every_kind_says_what_it_means(kind: str) -> None:
    silent = [rule for rule in list_rules(CONTRACTS[kind]) if not getattr(CONTRACTS[kind], rule).__doc__]
    assert silent == []


def test_kinds_without_a_contract_are_known() -> None:
    assert set(KINDS) - set(CONTRACTS) == {"workflow"}


@pytest.mark.parametrize("kind", CONTRACTS)
def test_a_contract_is_found_under_its_kind(kind: str) -> None:
    assert CONTRACTS[kind].kind == kind


def test_contracts_need_no_pytest_and_import_nothing_heavy() -> None:
    code = (
        "import sys, astuner_devkit.contracts\n"
        "print([name for name in ('pytest', 'torch', 'transformers', 'openai', 'starlette', 'httpx') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout == "[]\n"


class BoundToAnObject:
    def from_run(self, options: None, run_info: RunInfo) -> Any:
        return self


class FromOptionsAlone:
    @classmethod
    def from_run(cls, options: None) -> Any:
        return cls()


class TakesNoOptions:
    Options = Component.Options


class WantsAnArgument:
    def __init__(self, name: str) -> None:
        self.name = name


class WithADict:
    Options = dict


class WithAFunction:
    @staticmethod
    def Options() -> None:
        """Not a class at all."""


class Changeable:
    @define(kw_only=True)
    class Options:
        name: str = ""
        """A name."""

    def __init__(self, options: Options) -> None:
        self.options = options


class Undocumented:
    @frozen(kw_only=True)
    class Options:
        said: str = ""
        """This one is said."""
        unsaid: str = ""

    def __init__(self, options: Options) -> None:
        self.options = options


class Fickle:
    """Its options come out of a pickle as others."""

    @frozen(kw_only=True, slots=False)
    class Options:
        name: str = ""
        """A name."""

        def __reduce__(self) -> Any:
            return type(self), ()

    def __init__(self, options: Options) -> None:
        self.options = options


class Local:
    """Its options hold what no pickle takes."""

    @frozen(kw_only=True)
    class Options:
        name: str = ""
        """A name."""
        score: Any = field(factory=lambda: lambda: 1, init=False)
        """Made on the spot."""

    def __init__(self, options: Options) -> None:
        self.options = options


BAD: list[tuple[str, Any, Mapping[str, Any], str]] = [
    ("test_it_is_made_as_core_makes_it", BoundToAnObject, {}, "from_run must be a classmethod: write `@classmethod` above it"),
    ("test_it_is_made_as_core_makes_it", FromOptionsAlone, {}, "core calls from_run(options, run_info), which does not fit"),
    ("test_it_is_made_as_core_makes_it", TakesNoOptions, {}, "core calls TakesNoOptions(options): too many positional arguments"),
    (
        "test_it_is_made_as_core_makes_it",
        WantsAnArgument,
        {},
        "missing a required argument: 'name'; without `Options` it takes no",
    ),
    (
        "test_options_are_an_attrs_class",
        WithADict,
        {},
        "Options must be an attrs class (`@attrs.frozen(kw_only=True)`), got <class",
    ),
    ("test_options_are_an_attrs_class", WithAFunction, {}, "Options must be an attrs class"),
    ("test_options_are_an_attrs_class", Changeable, {}, "Options must be frozen (`@attrs.frozen`)"),
    ("test_options_are_documented", Undocumented, {}, 'document unsaid: write a """docstring""" under each field'),
    ("test_options_cross_processes", Fickle, {"name": "a"}, "Options changed on their way to another process: "),
    ("test_options_cross_processes", Local, {}, "pickling Options raised "),
]


@pytest.mark.parametrize(("rule", "component", "options", "words"), BAD)
def test_a_bad_component_breaks_its_rule(rule: str, component: Any, options: Mapping[str, Any], words: str) -> None:
    outcome = outcome_of(rule, of_kind(component, options=options))
    assert (outcome.status, words in outcome.message) == ("failed", True), outcome


def test_each_rule_of_all_kinds_has_a_bad_component() -> None:
    assert {rule for rule, *_ in BAD} == set(list_rules(Contract))


@pytest.mark.parametrize(("component", "options"), [(Component, {"weights": [1, 2.5]}), (DatasetFileReader, {}), (object, {})])
def test_a_good_component_keeps_the_rules_of_all_kinds(component: Any, options: Mapping[str, Any]) -> None:
    assert {"passed"} == {outcome.status for outcome in run_contract(of_kind(component, options=options))}


def test_without_a_component_every_rule_is_skipped() -> None:
    outcomes = run_contract(of_kind(None))
    assert {("skipped", "Bad names no component: set `component`")} == {(o.status, o.message) for o in outcomes}


def test_a_component_is_made_with_its_options(tmp_path: Path) -> None:
    made = of_kind(Component, options={"weights": [1, 2]})().make(tmp_path)
    assert made.options == Component.Options(weights=(1.0, 2.0))


def test_options_are_as_strict_as_in_a_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"judge\.wieghts"):
        of_kind(Component, options={"wieghts": [1]})().make(tmp_path)


def test_relative_paths_start_where_data_are_prepared(tmp_path: Path) -> None:
    class WithData(Contract):
        kind = "reader"
        component = DatasetFileReader
        options: ClassVar[Mapping[str, Any]] = {"training": {"file_path": "train.jsonl"}}

        def prepare(self, directory: Path) -> None:
            (directory / "train.jsonl").write_text('{"question": "2 + 2?"}\n')

    (task,) = WithData().make(tmp_path).read("train")
    assert task.main_query == "2 + 2?"


def test_what_cannot_be_made_is_blamed(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r"judge 'WantsAnArgument' \(.*test_running:WantsAnArgument\) could not be made"):
        of_kind(WantsAnArgument)().make(tmp_path)


@pytest.mark.parametrize("component", [DatasetFileReader, "astuner.episodes.builtin.readers.dataset_file:DatasetFileReader"])
def test_what_is_installed_is_blamed_with_its_distribution_and_version(component: Any) -> None:
    candidate = of_kind(component, kind="reader").candidate()
    assert (candidate.name, candidate.dist, candidate.version) == ("dataset_file", "astuner-core", candidate.version)
    assert candidate.blame.startswith("reader 'dataset_file' from astuner-core ")


def test_a_class_inside_of_another_is_named_by_its_whole_path() -> None:
    contract = of_kind("astuner.settings.config.sections:DatasetFileSection.__init__")
    assert contract.target() is DatasetFileSection.__init__


def test_a_plain_function_stays_one() -> None:
    def score(workflow_task: Any, workflow_output: Any) -> float:
        return 1.0

    assert of_kind(staticmethod(score)).target() is score
    assert of_kind(score)().target() is score
