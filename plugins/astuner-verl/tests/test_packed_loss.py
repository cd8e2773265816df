"""A loss on its way to processes that cannot import its file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import PluginError
from astuner.contract.protocols import Candidate
from astuner.runs.training import LossOptions
from astuner.settings.plugins.drivers import make
from astuner_verl.packed_loss import PackedLoss

pytestmark = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")

LOSS = """
from attrs import frozen
from factors import FACTOR


@frozen
class Scaled:
    by: float = 2.0

    @classmethod
    def from_run(cls, options, run_info):
        return cls()

    def compute(self, tokens):
        return scale(tokens.logp, self.by)


def scale(values, by):
    return values * by * FACTOR
"""
READ = """
import pickle, sys
from astuner.contract.protocols import TrainedTokens

with open(sys.argv[1], "rb") as file:
    options = pickle.load(file).unpack()
tokens = TrainedTokens(logp=5, old=5, sampler=5, advantages=1, samples=0)
print(options.policy_loss.compute(tokens), options.kl_loss_coef)
"""


def make_loss(directory: Path, file: str) -> tuple[Any, Candidate]:
    """Return a loss of a file, and its candidate."""
    named = directory / file
    named.parent.mkdir(exist_ok=True)
    named.write_text(LOSS)
    (directory / "factors.py").write_text("FACTOR = 3\n")
    target = f"{named}:Scaled"
    candidate = Candidate(kind="loss", name=f"./{file}:Scaled", target=target, source="path", config_dir=directory)
    return make(candidate, None, None), candidate


@pytest.fixture(autouse=True)
def forget_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    for name in ("losses", "factors"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("file", ["losses.py", "of-mine/some-loss.py"])
def test_a_loss_of_a_file_computes_in_a_process_that_does_not_find_the_file(tmp_path: Path, file: str) -> None:
    loss, candidate = make_loss(tmp_path, file)
    packed = PackedLoss.of(LossOptions(policy_loss=loss, kl_loss_coef=0.5), candidate)
    from ray import cloudpickle

    (tmp_path / "packed").write_bytes(cloudpickle.dumps(packed))
    (tmp_path / file).unlink()
    command = [sys.executable, "-c", READ, str(tmp_path / "packed")]
    ended = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    assert (ended.stdout.split(), ended.stderr) == (["30.0", "0.5"], "")


def test_other_objects_of_the_file_still_travel_by_name(tmp_path: Path) -> None:
    from ray import cloudpickle

    loss, candidate = make_loss(tmp_path, "losses.py")
    PackedLoss.of(LossOptions(policy_loss=loss), candidate)
    assert cloudpickle.loads(cloudpickle.dumps(type(loss))) is type(loss)


def test_a_loss_that_does_not_pickle_is_refused_with_its_place(tmp_path: Path) -> None:
    loss, candidate = make_loss(tmp_path, "losses.py")
    object.__setattr__(loss, "by", (value for value in ()))
    with pytest.raises(PluginError, match=r"loss './losses.py:Scaled'.*cannot be sent to verl's workers.*generator"):
        PackedLoss.of(LossOptions(policy_loss=loss), candidate)
