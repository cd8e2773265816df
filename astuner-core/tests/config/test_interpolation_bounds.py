"""Interpolations that would write gigabytes are errors with their keys; circles are left to OmegaConf."""

from __future__ import annotations

from pathlib import Path

import pytest

from astuner.contract.errors import ConfigError
from astuner.settings.config.interpolation import Interpolation
from astuner.settings.config.interpolation_bounds import MOST_REFERENCES, Expansions
from astuner.settings.config.loading import load_config

LEVELS = 30
REST = "astuner:\n  model: {path: a}\n"


def write_levels(reference: str, *, last: str = "boom") -> str:
    """Return lines that each refer to the next one, as the text with %d says."""
    lines = [f"  x{number}: {reference.replace('%d', str(number + 1))}" for number in range(LEVELS)]
    return "\n".join([*lines, f"  x{LEVELS}: {last}"])


BOMBS = {
    "texts": f"{REST}verl:\n{write_levels('${verl.x%d}${verl.x%d}')}\n",
    "relative texts": f"{REST}verl:\n{write_levels('${.x%d}${.x%d}')}\n",
    "lists": f"{REST}verl:\n{write_levels('[&quot;${verl.x%d}&quot;, &quot;${verl.x%d}&quot;]'.replace('&quot;', chr(34)))}\n",
    "an alias of the root": f"{REST}  x:\n" + write_levels("${ajet.x.x%d}${ajet.x.x%d}").replace("  x", "    x") + "\n",
}


CHAIN = {f"x{number}": f"${{verl.x{number + 1}}}" for number in range(LEVELS)}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_interpolations_that_double_thirty_times_are_an_error_with_the_key(text: str, tmp_path: Path) -> None:
    (tmp_path / "tune.yaml").write_text(text)
    with pytest.raises(ConfigError, match=rf"x0.*refers to values that refer to others, more than {MOST_REFERENCES} times"):
        load_config(tmp_path / "tune.yaml")


def test_a_chain_of_references_is_resolved() -> None:
    assert Interpolation({"verl": {**CHAIN, f"x{LEVELS}": "boom"}}).resolve()["verl"]["x0"] == "boom"


def test_a_circle_is_measured_once() -> None:
    assert Expansions({"a": "${b}", "b": "${a}"}).measure(("a",)).references == 2


def test_a_text_that_is_repeated_counts_with_its_length() -> None:
    tree = {"a": "y" * 100_000, "b": "${a}" * 200}
    assert Expansions(tree).measure(("b",)).is_too_large
