"""Kuhn poker in self-play: the measure against known values, the rules, and the commands of the page in a few steps."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from harness import REPOSITORY
from page_commands import Bash, read_blocks

TUTORIAL = REPOSITORY / "tutorial" / "kuhn_poker"
DATA = ("demos.jsonl", "deals.jsonl")
MADE = shutil.ignore_patterns("launcher_record", "model", "__pycache__")
STEPS = 4
SHORT = f"--set trainer_common.total_training_steps={STEPS} --set trainer_common.save_freq={STEPS} --set rollout.num_repeat=4"
RUN = re.compile(r"^astuner run\b.*", re.MULTILINE)
ROW = re.compile(r"^ *([\d.]+) antes +([\d.]+) +([\d.]+) ", re.MULTILINE)


@pytest.fixture
def exploitability(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module of the tutorial."""
    monkeypatch.syspath_prepend(TUTORIAL)
    for name in ("game", "exploitability"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield import_module("exploitability")
    for name in ("game", "exploitability"):
        sys.modules.pop(name, None)


def test_the_random_policy_loses_eleven_twenty_fourths_of_an_ante(exploitability: ModuleType):
    random = dict.fromkeys(exploitability.INFORMATION_SETS, 0.5)
    assert exploitability.measure_winnings(random) == pytest.approx(1 / 8)
    assert exploitability.measure_exploitability(random) == pytest.approx(11 / 24)


@pytest.mark.parametrize("alpha", [0, 0.1, 1 / 3])
def test_equilibria_lose_nothing_and_the_first_role_pays_an_eighteenth(alpha: float, exploitability: ModuleType):
    policy = exploitability.make_equilibrium(alpha)
    assert exploitability.measure_winnings(policy) == pytest.approx(-1 / 18)
    assert exploitability.measure_exploitability(policy) == pytest.approx(0, abs=1e-12)


def test_who_always_bets_loses_a_third(exploitability: ModuleType):
    # The other wins 2 with the king, 0 in the mean with the queen, and loses 1 with the jack by passing.
    always = dict.fromkeys(exploitability.INFORMATION_SETS, 1.0)
    assert exploitability.measure_best_response(always, "second") == pytest.approx(1 / 3)
    assert exploitability.measure_exploitability(always) == pytest.approx(1 / 3)


def test_an_alpha_out_of_the_family_is_refused(exploitability: ModuleType):
    with pytest.raises(ValueError, match=r"alpha must be from 0 to 1/3, and is 0\.5"):
        exploitability.make_equilibrium(0.5)


def test_the_commands_of_the_page_run_from_the_random_policy(bash: Bash, tmp_path: Path):
    home = Path(shutil.copytree(TUTORIAL, tmp_path / "kuhn_poker", ignore=MADE))
    printed = []
    for command in read_blocks(home / "README.md", "bash"):
        shortened = RUN.sub(rf"\g<0> {SHORT}", command).replace("step_200", f"step_{STEPS}")
        printed.append(bash(shortened, home))
    (before, in_pots, illegal), (after, *_) = (tuple(map(float, row)) for row in ROW.findall("\n".join(printed))[:2])
    assert before == pytest.approx(11 / 24, abs=0.02)
    assert in_pots == pytest.approx(before / 2, abs=0.001)
    assert illegal <= 0.02
    assert after != before


def test_the_measure_names_a_folder_that_is_not_a_model(bash: Bash, tmp_path: Path):
    said = bash(f"PYTHONPATH={TUTORIAL} python {TUTORIAL}/exploitability.py nowhere 2>&1 || true", tmp_path)
    assert "error: nowhere is not the folder of a model: it has no config.json" in said


def test_the_script_writes_the_data(bash: Bash, tmp_path: Path):
    home = Path(shutil.copytree(TUTORIAL, tmp_path / "kuhn_poker", ignore=MADE))
    for file in DATA:
        (home / file).unlink()
    bash("python write_data.py", home)
    assert [(home / file).read_bytes() for file in DATA] == [(TUTORIAL / file).read_bytes() for file in DATA]
