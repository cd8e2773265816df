"""Which earlier weights answer as opponents, by the step that was trained last."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from astuner.contract.errors import RunFailed
from astuner.contract.protocols import RunInfo
from astuner.settings.config.model import Adapter, Config, Model, Opponent
from astuner.settings.config.trainer import TrainerCommon
from astuner_devkit.run_infos import run_info
from astuner_local.several.opponents import find_opponents, read_version


def make_run(home: Path, opponent: Opponent, *, save_freq: int = 2) -> RunInfo:
    adapters = {} if opponent.adapter is None else {opponent.adapter: Adapter(lora_rank=2)}
    model = Model(path="/start", adapters=adapters, opponents={"rival": opponent})
    return run_info(home, config=Config(model=model, trainer_common=evolve(TrainerCommon(), save_freq=save_freq)))


def save(run: RunInfo, *steps: int, adapter: str = "") -> None:
    for step in steps:
        (run.directory / "checkpoints" / f"step_{step}" / adapter).mkdir(parents=True)


@pytest.mark.parametrize(
    ("checkpoint", "save_freq", "expected"),
    [
        ("latest", 2, [0, 0, 0, 2, 2, 4]),
        ("latest", 1, [0, 0, 1, 2, 3, 4]),
        ("latest", 0, [0] * 6),
        (0, 2, [0] * 6),
        (2, 2, [0, 0, 0, 2, 2, 2]),
    ],
)
def test_a_checkpoint_answers_once_the_step_after_it_is_trained(
    tmp_path: Path, checkpoint: object, save_freq: int, expected: list[int]
):
    run = make_run(tmp_path, Opponent(checkpoint=checkpoint), save_freq=save_freq)  # type: ignore[arg-type]
    # Those that a stop has saved in between make no difference.
    save(run, *range(1, 7))
    found = [find_opponents(run, step)["rival"] for step in range(6)]
    assert [read_version(place) for place in found] == expected
    starts = {place for place, version in zip(found, expected, strict=True) if version == 0}
    assert starts == {"/start"}


def test_an_opponent_among_adapters_is_a_folder_of_the_checkpoint_and_begins_as_the_base(tmp_path: Path):
    run = make_run(tmp_path, Opponent(adapter="solver"))
    save(run, 2, adapter="solver")
    assert find_opponents(run, 2) == {"rival": None}
    place = find_opponents(run, 3)["rival"]
    assert place == str(run.directory / "checkpoints" / "step_2" / "solver")
    assert (read_version(place), read_version(None)) == (2, 0)


def test_weights_that_are_gone_are_named(tmp_path: Path):
    run = make_run(tmp_path, Opponent(checkpoint=2))
    with pytest.raises(RunFailed, match=r"step_2 is gone, with which the opponent 'rival' answers: put it back"):
        find_opponents(run, 3)
