from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from astuner.runs.driver.run_story import list_run_viewers
from astuner.settings.plugins.catalog import Catalog

Install = Callable[..., Path]

PAGES = {"pages": "acme_pages:pages"}
SHOWING: Mapping[str, Any] = {"entry_points": {"astuner.commands": PAGES, "astuner.shows_runs": PAGES}}


@pytest.fixture
def others() -> list[str]:
    """What is installed where the tests run."""
    return list_run_viewers(Catalog.discover())


def test_a_command_that_its_distribution_names_shows_runs(others: list[str], install: Install) -> None:
    install("acme-pages", **SHOWING)
    assert sorted(list_run_viewers(Catalog.discover())) == sorted([*others, "astuner pages"])


def test_another_command_does_not(others: list[str], install: Install) -> None:
    install("acme-pages", entry_points={"astuner.commands": PAGES})
    install("acme-other", entry_points={"astuner.shows_runs": PAGES})
    assert list_run_viewers(Catalog.discover()) == others


def test_one_that_cannot_be_used_is_not_named(others: list[str], install: Install) -> None:
    install("acme-pages", **SHOWING)
    assert list_run_viewers(Catalog.discover(disabled=["acme-pages"])) == others
    install("acme-pages", requires=("acme-absent",), **SHOWING)
    assert list_run_viewers(Catalog.discover()) == others
    install("acme-pages", requires=("astuner-core>=7,<8",), **SHOWING)
    assert list_run_viewers(Catalog.discover()) == others


def test_it_is_named_as_it_is_typed(others: list[str], install: Install) -> None:
    taken = {"run": "acme_pages:pages"}
    install("acme-pages", entry_points={"astuner.commands": taken, "astuner.shows_runs": taken})
    assert sorted(list_run_viewers(Catalog.discover())) == sorted([*others, "astuner acme-pages/run"])
