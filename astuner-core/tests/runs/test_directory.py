from __future__ import annotations

import os
import subprocess
import sys

import pytest

from astuner.errors import UsageError
from astuner.runs.checkpoints import begin_checkpoint, find_checkpoint, finish_checkpoint, prune_checkpoints
from astuner.runs.directory import RunDirectory


@pytest.fixture
def directory(tmp_path):
    found = RunDirectory(tmp_path / "run")
    found.open()
    yield found
    found.close()


def save(directory, *steps):
    for step in steps:
        (begin_checkpoint(directory, step) / "model").write_text(str(step))
        finish_checkpoint(directory, step)


def test_a_run_in_use_is_refused_and_names_the_process(directory):
    take = f"RunDirectory(Path({str(directory.path)!r})).open()"
    code = f"from pathlib import Path; from astuner.runs.directory import RunDirectory; {take}"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"in use by process {os.getpid()}" in other.stderr


def test_a_released_run_can_be_taken(directory):
    directory.close()
    RunDirectory(directory.path).open()


def test_a_checkpoint_being_written_does_not_count(directory):
    save(directory, 2)
    begin_checkpoint(directory, 4)
    assert directory.list_saved_steps() == [2]


def test_saving_a_step_again_replaces_it(directory):
    save(directory, 2)
    (begin_checkpoint(directory, 2) / "model").write_text("new")
    finish_checkpoint(directory, 2)
    assert (directory.checkpoint(2) / "model").read_text() == "new"


def test_old_checkpoints_go_and_the_best_stays(directory):
    save(directory, 1, 2, 3, 4)
    prune_checkpoints(directory, keep=2, best=1)
    assert directory.list_saved_steps() == [1, 3, 4]


def test_checkpoints_are_found_by_last_best_and_step(directory):
    save(directory, 1, 10, 2)
    directory.write_state(best={"step": 2})
    assert [find_checkpoint(directory, name).name for name in ("last", "best", "1")] == ["step_10", "step_2", "step_1"]


@pytest.mark.parametrize(("name", "message"), [("best", "no best checkpoint is known"), ("7", "there are best, last and 1")])
def test_a_checkpoint_that_is_not_there_is_answered_with_those_that_are(directory, name, message):
    save(directory, 1)
    with pytest.raises(UsageError, match=message):
        find_checkpoint(directory, name)


def test_state_is_changed_key_by_key(directory):
    directory.write_state(status="running", step=1)
    directory.write_state(step=2)
    assert {k: v for k, v in directory.state.items() if k != "written"} == {"status": "running", "step": 2}


def test_only_episodes_and_checkpoints_are_work(directory):
    directory.write_run({})
    assert not directory.holds_work
    save(directory, 1)
    assert directory.holds_work
