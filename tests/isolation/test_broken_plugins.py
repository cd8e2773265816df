"""Plugins that cannot be imported, next to one that can."""

from __future__ import annotations

import pytest
from environments import Environment, Wheel
from sources import BROKEN, COMMAND, JUDGE


@pytest.fixture
def one_broken(environment: Environment, wheel: Wheel) -> Environment:
    acme = wheel("acme-judges", "1.2.0", {"astuner.judges": {"strict": "acme_judges:Strict"}}, files={"acme_judges.py": JUDGE})
    offers = {"astuner.judges": {"lenient": "bolt_judges:L"}, "astuner.commands": {"bolt": "bolt_judges:bolt"}}
    bolt = wheel("bolt-judges", "0.3", offers, files={"bolt_judges.py": BROKEN})
    tools = wheel("acme-tools", "1.0", {"astuner.commands": {"hello": "acme_tools:hello"}}, files={"acme_tools.py": COMMAND})
    environment.install(acme, bolt, tools)
    return environment


def test_it_is_listed_like_the_others(one_broken: Environment) -> None:
    assert {row["name"] for row in one_broken.listed()} == {"strict", "lenient", "bolt", "hello"}


def test_its_command_is_a_row_in_the_help(one_broken: Environment) -> None:
    found = one_broken.astuner("--help")
    assert (found.returncode, found.stderr) == (0, "")
    assert ["bolt", "(bolt-judges", "0.3)"] in [line.split() for line in found.stdout.splitlines()]


def test_its_command_is_blamed_when_it_is_used(one_broken: Environment) -> None:
    found = one_broken.astuner("bolt")
    assert found.returncode == 1
    assert "command 'bolt' from bolt-judges 0.3 (bolt_judges:bolt): ModuleNotFoundError" in found.stderr


def test_the_command_of_another_plugin_is_unaffected(one_broken: Environment) -> None:
    assert one_broken.astuner("hello").stdout == "hello\n"


def test_a_run_with_another_plugin_is_unaffected(one_broken: Environment) -> None:
    finished = one_broken.run(one_broken.project("strict"))
    assert finished.returncode == 0, finished.stderr
    assert "bolt" not in finished.stderr


def test_a_run_with_it_is_refused_with_the_blame(one_broken: Environment) -> None:
    refused = one_broken.run(one_broken.project("lenient"))
    assert refused.returncode == 2
    assert "judge 'lenient' from bolt-judges 0.3 (bolt_judges:L): ModuleNotFoundError" in refused.stderr
    assert "acme_engine_that_is_not_there" in refused.stderr
