from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from astuner_devkit.command_line import CommandResult

Cli = Callable[..., CommandResult]
Install = Callable[..., Path]

JUDGES = {"astuner.judges": {"strict": "acme_judges.strict:Strict"}}
CORE = ("astuner-core>=0.2,<0.3",)


@pytest.fixture
def install(fake_distribution: Callable[..., Path]) -> Install:
    """Installs a distribution with a judge that breaks as soon as it is imported, which a list does not do."""

    def install(requires: Sequence[str] = CORE, name: str = "acme-judges", version: str = "1.2.0") -> Path:
        return fake_distribution(name, version, {"acme_judges/strict.py": "1 / 0"}, JUDGES, requires)

    return install


def test_a_third_partys_component_is_listed_without_being_imported(cli: Cli, install: Install) -> None:
    install()
    rows = [" ".join(line.split()) for line in cli("plugin", "list").out.splitlines()]
    assert "judge strict acme-judges 1.2.0 ok" in rows


def test_the_installed_command_finds_it_too(
    astuner: Callable[..., subprocess.CompletedProcess[str]], fake_distribution: Callable[..., Path]
) -> None:
    site = fake_distribution("acme-judges", "1.2.0", {}, JUDGES)
    assert "acme-judges 1.2.0" in astuner("plugin", "list", PYTHONPATH=str(site)).stdout


def test_one_for_another_core_is_listed_with_the_reason(cli: Cli, install: Install) -> None:
    install(requires=("astuner-core>=9",))
    assert "it needs astuner-core>=9, and astuner-core 0.2.0 is installed" in cli("plugin", "list").out


def test_what_is_missing_is_listed_with_the_command(cli: Cli, install: Install) -> None:
    install(requires=("acme-absent",))
    assert "lacks acme-absent: pip install acme-judges" in cli("plugin", "list").out


def test_every_fault_of_a_component_is_listed(cli: Cli, install: Install) -> None:
    install(requires=("astuner-core>=9", "acme-absent"))
    assert "astuner-core 0.2.0 is installed; lacks acme-absent: pip install acme-judges" in cli("plugin", "list").out


def test_two_that_offer_one_name_are_listed_with_each_other_and_the_way_out(cli: Cli, install: Install) -> None:
    install()
    install(name="other-judges", version="2.0")
    rows = [" ".join(line.split()) for line in cli("plugin", "list").out.splitlines()]
    assert "judge strict acme-judges 1.2.0 other-judges 2.0 offers 'strict' too: write acme-judges/strict" in rows
    assert "judge strict other-judges 2.0 acme-judges 1.2.0 offers 'strict' too: write other-judges/strict" in rows


def test_one_name_for_two_kinds_is_no_conflict(cli: Cli, fake_distribution: Callable[..., Path]) -> None:
    fake_distribution("acme-both", entry_points={"astuner.judges": {"both": "a:B"}, "astuner.readers": {"both": "a:B"}})
    rows = json.loads(cli("plugin", "list", "--json").out)
    assert [row["conflicts"] for row in rows if row["name"] == "both"] == [[], []]


def test_a_command_that_core_has_already_is_a_conflict(cli: Cli, fake_distribution: Callable[..., Path]) -> None:
    fake_distribution("acme-tools", entry_points={"astuner.commands": {"run": "acme_tools:run"}})
    assert "astuner-core offers 'run' too: write acme-tools/run" in cli("plugin", "list", "--kind", "command").out


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("plugin.list", "astuner-core offers 'plugin.list' too: write plugin acme-tools/list"),
        ("nowhere.list", "astuner-core has no group of commands 'nowhere' that others add to"),
    ],
)
def test_a_command_below_a_group_is_listed_with_its_fault(
    cli: Cli, fake_distribution: Callable[..., Path], name: str, words: str
) -> None:
    fake_distribution("acme-tools", entry_points={"astuner.commands": {name: "acme_tools:run"}})
    assert words in cli("plugin", "list", "--kind", "command").out


def test_one_kind_is_listed_alone(cli: Cli, install: Install) -> None:
    install()
    rows = [line.split() for line in cli("plugin", "list", "--kind", "judges").out.splitlines()]
    assert {"KIND", "judge"} == {row[0] for row in rows}


def test_an_unknown_kind_is_a_usage_error(cli: Cli) -> None:
    found = cli("plugin", "list", "--kind", "juge")
    assert found.code == 2
    assert "no kind 'juge'" in found.err


def test_a_kind_that_nobody_offers_is_an_empty_list(cli: Cli) -> None:
    assert json.loads(cli("plugin", "list", "--kind", "workflow", "--json").out) == []


def test_the_list_as_json_is_one_document_with_every_fact(cli: Cli, install: Install) -> None:
    install(requires=(*CORE, "acme-absent"))
    rows = json.loads(cli("plugin", "list", "--json").out)
    assert [row for row in rows if row["name"] == "strict"] == [
        {
            "kind": "judge",
            "name": "strict",
            "dist": "acme-judges",
            "version": "1.2.0",
            "target": "acme_judges.strict:Strict",
            "core_requirement": ">=0.2,<0.3",
            "missing": ["acme-absent"],
            "remedy": "pip install acme-judges",
            "problem": None,
            "conflicts": [],
        }
    ]
