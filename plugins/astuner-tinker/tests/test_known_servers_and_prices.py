"""The lists that ship with the package are whole: nothing in them is missing, doubled or unsourced."""

from __future__ import annotations

import tomllib
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from astuner_tinker.options import ALIGNMENT, read_options
from astuner_tinker.spending import find_prices

REPOSITORY = Path(__file__).parents[3]
DATA = files("astuner_tinker")
SERVERS = tomllib.loads(DATA.joinpath("servers.toml").read_text(encoding="utf-8"))
PRICES = tomllib.loads(DATA.joinpath("prices.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("server", SERVERS.values(), ids=SERVERS)
def test_a_server_has_one_sign_and_a_window_that_holds_what_was_tried(server: dict[str, Any]) -> None:
    assert ("title" in server) != ("host" in server)
    assert ("tried" in server) != ("read" in server)
    assert [version for version in server.get("tried", ()) if version not in SpecifierSet(server["sdk"])] == []
    date.fromisoformat(server["date"])


def test_signs_of_servers_are_unique() -> None:
    signs = [server.get("title", server.get("host")) for server in SERVERS.values()]
    assert len(signs) == len({*signs})


@pytest.mark.parametrize("price", PRICES["models"].values(), ids=PRICES["models"])
def test_a_price_has_three_figures_a_day_and_a_source(price: dict[str, Any]) -> None:
    assert min(price["prefill"], price["sample"], price["train"]) > 0
    assert price["prefill"] < price["sample"]
    assert price["source"] in PRICES["sources"]
    date.fromisoformat(price["date"])
    assert price.get("discounted", True) is True


def test_every_source_is_used() -> None:
    assert {*PRICES["sources"]} == {price["source"] for price in PRICES["models"].values()}


def test_the_recipe_has_prices_and_fits_the_options() -> None:
    recipe = yaml.safe_load((REPOSITORY / "recipes/8b-tinker.yaml").read_text(encoding="utf-8"))
    options = read_options(recipe["tinker"])
    prices, source = find_prices(options, "Qwen/Qwen3-8B")
    assert prices is not None
    assert source.startswith("of 2026-")
    assert options.max_spend
    assert ALIGNMENT.check(recipe["tinker"]) == ()
