from __future__ import annotations

from typing import Any

import click
import pytest

from astuner_devkit.contracts import CommandContract, Contract, list_rules, run_contract


@click.command()
def good() -> None:
    """Do something good."""


def plain() -> None:
    """Do something, without click."""


@click.command()
def silent() -> None:
    pass


@click.group()
def family() -> None:
    """Do one of several things."""


@family.command()
def quiet() -> None:
    pass


class Eager(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        raise RuntimeError("no GPU")


@click.command(add_help_option=False)
def helpless() -> None:
    """Do something, and never say how."""


class Wordless(click.Command):
    def get_help(self, ctx: click.Context) -> str:
        return "ask a colleague"


BAD: list[tuple[str, dict[str, Any], str]] = [
    (
        "test_it_is_a_click_command",
        {"component": staticmethod(plain)},
        "but a click command is expected: decorate it with `@click.command()`",
    ),
    ("test_it_says_what_it_does", {"component": silent}, "`silent` has no help: write a docstring under its function"),
    ("test_it_says_what_it_does", {"component": family}, "`family quiet` has no help"),
    (
        "test_help_is_answered",
        {"component": Eager("eager", help="Fail.")},
        "`eager --help` ended with exit code 1 (RuntimeError: no",
    ),
    ("test_help_is_answered", {"component": helpless}, "`helpless --help` ended with exit code 2 "),
    ("test_help_is_answered", {"component": Wordless("w", help="Fail.")}, "`w --help` printed 'ask a colleague"),
    ("test_its_name_is_the_entry_points", {"component": good, "name": "better"}, "calls itself 'good', its entry point 'better'"),
    ("test_its_name_is_the_entry_points", {"component": good, "name": "nowhere.good"}, "has no group of commands 'nowhere'"),
]


@pytest.mark.parametrize(("rule", "given", "words"), BAD)
def test_a_bad_command_breaks_its_rule(rule: str, given: dict[str, Any], words: str) -> None:
    outcome = next(outcome for outcome in run_contract(type("Bad", (CommandContract,), given)) if outcome.rule == rule)
    assert (outcome.status, words in outcome.message) == ("failed", True), outcome


def test_each_rule_has_a_bad_command() -> None:
    assert {rule for rule, _, _ in BAD} == set(list_rules(CommandContract)) - set(list_rules(Contract))


@pytest.mark.parametrize("name", [None, "good", "plugin.good"])
def test_a_good_command_keeps_all_rules(name: str | None) -> None:
    given = {"component": good, "name": name}
    assert {"passed"} == {outcome.status for outcome in run_contract(type("Good", (CommandContract,), given))}


def test_all_rules_of_commands_need_nothing_from_the_author() -> None:
    assert set(list_rules(CommandContract)) - {"test_options_cross_processes"} == set(
        list_rules(CommandContract, only_self_contained=True)
    )


def test_a_command_is_blamed_by_its_own_name() -> None:
    assert type("Bad", (CommandContract,), {"component": silent}).candidate().blame == f"command 'silent' ({__name__}:silent)"
