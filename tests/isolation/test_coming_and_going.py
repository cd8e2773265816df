"""Plugins that are uninstalled, disabled or required."""

from __future__ import annotations

import pytest
from environments import Environment, Wheel
from sources import JUDGE


@pytest.fixture
def strict(environment: Environment, wheel: Wheel) -> Environment:
    offer = {"astuner.judges": {"strict": "acme_judges:Strict", "other": "acme_judges:Strict"}}
    environment.install(wheel("acme-judges", "1.2.0", offer, files={"acme_judges.py": JUDGE}))
    return environment


def test_after_uninstalling_the_next_start_says_which_command_brings_it_back(strict: Environment) -> None:
    conf = strict.project("strict")
    assert strict.run(conf).returncode == 0
    strict.uninstall("acme-judges")
    assert strict.listed() == []
    for arguments in ((), ("--resume",)):
        refused = strict.run(conf, *arguments)
        assert refused.returncode == 2
        assert "no judge 'strict'; installed: none" in refused.stderr
        assert "This run had it from acme-judges 1.2.0: pip install acme-judges==1.2.0" in refused.stderr


@pytest.mark.parametrize("disabled", ["acme-judges", "acme-judges/strict"])
def test_what_is_disabled_is_refused_and_the_reason_given(strict: Environment, disabled: str) -> None:
    refused = strict.run(strict.project("strict", settings={"plugins": {"disabled": [disabled]}}))
    assert refused.returncode == 2
    assert "judge 'strict' from acme-judges 1.2.0 is disabled by the configuration" in refused.stderr


def test_disabling_one_component_leaves_the_others_of_its_distribution(strict: Environment) -> None:
    finished = strict.run(strict.project("other", settings={"plugins": {"disabled": ["acme-judges/strict"]}}))
    assert finished.returncode == 0, finished.stderr


def test_a_required_distribution_that_is_missing_names_the_command(strict: Environment) -> None:
    refused = strict.run(strict.project(settings={"plugins": {"required": ["acme-judges", "bolt-audit"]}}))
    assert refused.returncode == 2
    assert "'bolt-audit' is not installed or is disabled: pip install bolt-audit" in refused.stderr
    assert "'acme-judges' is not" not in refused.stderr


def test_a_required_distribution_that_is_there_lets_the_run_start(strict: Environment) -> None:
    finished = strict.run(strict.project(settings={"plugins": {"required": ["Acme_Judges"]}}))
    assert finished.returncode == 0, finished.stderr
