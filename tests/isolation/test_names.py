"""Two packages that offer one name."""

from __future__ import annotations

import pytest
from environments import Environment, Wheel
from sources import JUDGE


@pytest.fixture
def both(environment: Environment, wheel: Wheel) -> Environment:
    acme = wheel("acme-judges", "1.2.0", {"astuner.judges": {"strict": "acme_judges:Strict"}}, files={"acme_judges.py": JUDGE})
    bolt = wheel("bolt-judges", "0.3", {"astuner.judges": {"strict": "bolt_judges:Strict"}}, files={"bolt_judges.py": JUDGE})
    environment.install(acme, bolt)
    return environment


def test_the_list_shows_both_and_says_how_to_tell_them_apart(both: Environment) -> None:
    assert [row["dist"] for row in both.listed()] == ["acme-judges", "bolt-judges"]
    rows = [line.split(maxsplit=4) for line in both.astuner("plugin", "list").stdout.splitlines()]
    assert ["judge", "strict", "acme-judges", "1.2.0", "bolt-judges 0.3 offers 'strict' too: write acme-judges/strict"] in rows
    assert ["judge", "strict", "bolt-judges", "0.3", "acme-judges 1.2.0 offers 'strict' too: write bolt-judges/strict"] in rows


def test_a_run_with_the_name_alone_is_refused_and_names_both(both: Environment) -> None:
    refused = both.run(both.project("strict"))
    assert refused.returncode == 2
    assert "acme-judges 1.2.0 (acme_judges:Strict), bolt-judges 0.3 (bolt_judges:Strict)" in refused.stderr
    assert "Write `acme-judges/strict` or `bolt-judges/strict`" in refused.stderr


def test_distribution_and_name_choose_one(both: Environment) -> None:
    finished = both.run(both.project("bolt-judges/strict"))
    assert finished.returncode == 0, finished.stderr
    assert "judge strict (bolt-judges 0.3)" in finished.stderr


def test_disabling_one_distribution_leaves_the_other(both: Environment) -> None:
    conf = both.project("strict", settings={"plugins": {"disabled": ["acme-judges"]}})
    finished = both.run(conf)
    assert finished.returncode == 0, finished.stderr
    assert "judge strict (bolt-judges 0.3)" in finished.stderr


def test_disabling_one_by_distribution_and_name_leaves_the_other(both: Environment) -> None:
    conf = both.project("strict", settings={"plugins": {"disabled": ["bolt-judges/strict"]}})
    finished = both.run(conf)
    assert finished.returncode == 0, finished.stderr
    assert "judge strict (acme-judges 1.2.0)" in finished.stderr
