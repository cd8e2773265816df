"""Which explorer step plays what, and what a run goes on from."""

from __future__ import annotations

import json
from pathlib import Path
from stat import S_IMODE
from typing import Any

import pytest
from attrs import asdict, evolve

from astuner.contract.errors import UsageError
from astuner.runs.store.directory import RunDirectory
from astuner_trinity.checkpoints import adopt, read_saved_step, turn_back
from astuner_trinity.schedule import Schedule


@pytest.mark.parametrize(
    ("every", "before", "steps", "last"),
    [(2, True, [0, 2, 4, 5], 6), (2, False, [2, 4, 5], 6), (-1, True, [0, 5], 6), (-1, False, [], 5), (20, False, [5], 6)],
)
def test_validation_is_due_as_with_every_backbone(every: int, before: bool, steps: list[int], last: int) -> None:
    schedule = Schedule(total=5, every=every, before=before)
    assert [step for step in range(6) if schedule.validates(step)] == steps
    assert schedule.last == last
    assert Schedule(**json.loads(json.dumps(asdict(schedule)))) == schedule


@pytest.mark.parametrize(
    ("synchronizer", "steps"),
    [
        ({"sync_offset": 0, "sync_interval": 1}, 0),
        ({"sync_offset": 1, "sync_interval": 1}, 1),
        ({"sync_offset": 0, "sync_interval": 2}, 1),
        ({"sync_offset": 1, "sync_interval": 2}, 2),
        ({"sync_offset": 0, "sync_interval": 5}, 0),
        ({"sync_style": "fully_async", "sync_offset": 0, "sync_interval": 1}, 3),
    ],
)
def test_the_last_validation_waits_for_the_last_weights(synchronizer: dict[str, Any], steps: int) -> None:
    settings = {"sync_style": "fixed", "explorer_sync_interval": None, **synchronizer}
    schedule = Schedule(total=5, every=-1, before=True)
    schedule = evolve(schedule, catching_up=schedule.until_the_last_weights(settings, 3))
    assert schedule.catching_up == steps
    played = [schedule.weights_at(step) for step in range(1, schedule.last + 1)]
    assert played == [0, 1, 2, 3, 4, *[None] * steps, 5]


@pytest.mark.parametrize(
    ("synchronizer", "step"), [({"sync_interval": 1}, 10), ({"sync_interval": 4}, 8), ({"sync_interval": 5}, 10)]
)
def test_the_last_weights_are_those_that_trinity_hands_over(synchronizer: dict[str, Any], step: int) -> None:
    settings = {"sync_style": "fixed", "trainer_sync_interval": None, **synchronizer}
    assert Schedule(total=10, every=-1, before=True).last_weights(settings) == step


def checkpoint(job: Path, step: int) -> None:
    model = job / f"global_step_{step}" / "actor" / "huggingface"
    model.mkdir(parents=True)
    (model / "model.safetensors").write_text(f"weights {step}")
    (model / "config.json").write_text("{}")
    (job / "latest_checkpointed_iteration.txt").write_text(str(step))


def test_a_checkpoint_of_trinitys_becomes_one_of_the_run(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "run")
    directory.open()
    job = tmp_path / "job"
    assert read_saved_step(job) == 0
    checkpoint(job, 3)
    assert read_saved_step(job) == 3
    path = adopt(directory, job, 3)
    assert path is not None
    assert (path / "model.safetensors").read_text() == "weights 3"
    assert all(S_IMODE(file.stat().st_mode) == 0o600 for file in path.iterdir() if file.name != "trinity.json")
    # Not twice on the disk.
    assert (path / "model.safetensors").stat().st_nlink == 2
    assert directory.list_saved_steps() == [3]
    assert adopt(directory, job, 9) is None
    directory.close()


def test_a_run_goes_on_from_a_step_and_from_nothing_later(tmp_path: Path) -> None:
    job = tmp_path / "job"
    for step in (2, 4, 6):
        checkpoint(job, step)
    turn_back(job, 4, explorer="explorer", trainer="trainer")
    assert sorted(path.name for path in job.glob("global_step_*")) == ["global_step_2", "global_step_4"]
    assert read_saved_step(job) == 4
    position = json.loads((job / "explorer_meta.json").read_text())
    assert position == {"latest_iteration": 4, "taskset_states": [{"current_index": 4}]}
    with pytest.raises(UsageError, match="is gone, so training cannot continue from step 5"):
        turn_back(job, 5, explorer="explorer", trainer="trainer")
