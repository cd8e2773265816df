"""Passes that share prefixes against verl's own passes, on its FSDP engine over gloo."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.skipif(find_spec("verl") is None, reason="verl is not installed"),
    pytest.mark.xdist_group("shared-prefixes"),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = tmp_path_factory.mktemp("model")
    command = [sys.executable, str(Path(__file__).with_name("compare_passes.py")), str(home)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]
    return json.loads((home / "found.json").read_text())


@pytest.mark.parametrize("passes", ["one pass", "passes"])
def test_loss_and_gradients_are_those_of_verls_own_passes(found: Any, passes: str) -> None:
    compared = found[passes]
    assert compared["shares"]
    assert compared["tried"] < 1e-5
    assert compared["gradients"] < 1e-4
    whole, shared = compared["whole"], compared["shared"]
    assert (whole.pop("computed"), shared.pop("computed")) == (found["tokens"], found["tokens"] - found["repeated"])
    assert shared == pytest.approx(whole, rel=1e-4)


def test_first_choices_are_the_likeliest_tokens_whether_passes_share_or_not(found: Any) -> None:
    assert len(found["first choices"]) == 4
    assert all(one == found["likeliest"] for one in found["first choices"])


def test_a_model_for_which_the_numbers_differ_does_not_share(found: Any) -> None:
    assert found["eager"]["tried"] > 1e-4
    assert not found["eager"]["shares"]
