from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from astuner.contract.errors import UsageError
from astuner.runs.store.checkpoints import (
    begin_checkpoint,
    find_checkpoint,
    finish_checkpoint,
    forget_validations,
    is_best_validation,
    mark_as_best_only,
    prune_checkpoints,
    record_validation,
)
from astuner.runs.store.directory import RunDirectory


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


def validate(directory, rewards):
    for step, reward in rewards.items():
        record_validation(directory, step, "val/reward/mean", reward)


def test_a_run_in_use_is_refused_and_names_the_process(directory):
    take = f"RunDirectory(Path({str(directory.path)!r})).open()"
    code = f"from pathlib import Path; from astuner.runs.store.directory import RunDirectory; {take}"
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
    validate(directory, {1: 0.9, 2: 0.5})
    prune_checkpoints(directory, keep=2)
    assert directory.list_saved_steps() == [1, 3, 4]


def test_a_checkpoint_that_was_the_best_alone_goes_when_a_better_one_is_saved(directory):
    save(directory, 2, 4, 6)
    validate(directory, {2: 0.5, 4: 0.9, 6: 0.4})
    for step in (2, 4):
        mark_as_best_only(directory, step, True)
    prune_checkpoints(directory, keep=None)
    assert directory.list_saved_steps() == [4, 6]


def test_a_checkpoint_that_became_due_stays_and_the_best_alone_is_not_counted(directory):
    save(directory, 1, 2, 3, 4, 5)
    validate(directory, {2: 0.5, 4: 0.9})
    for step, best_only in ((2, True), (4, True), (2, False)):
        mark_as_best_only(directory, step, best_only)
    prune_checkpoints(directory, keep=2)
    assert directory.list_saved_steps() == [3, 4, 5]


def test_a_validation_is_the_best_only_if_it_is_better_than_all_others(directory):
    validate(directory, {2: 0.5, 4: 0.9, 6: 0.9})
    assert [is_best_validation(directory, step) for step in (2, 4, 6, 8)] == [False, False, False, False]
    validate(directory, {8: 1.0})
    assert is_best_validation(directory, 8)


def test_the_best_is_the_best_of_those_that_were_saved(directory):
    save(directory, 2, 9)
    validate(directory, {2: 0.5, 4: 0.9, 9: 0.5})
    assert find_checkpoint(directory, "best").name == "step_2"


def test_a_validation_that_a_resumed_run_repeats_counts_no_longer(directory):
    save(directory, 2, 4)
    validate(directory, {2: 0.5, 4: 0.9})
    forget_validations(directory, after=2)
    assert find_checkpoint(directory, "best").name == "step_2"


def test_a_checkpoint_that_a_crash_left_half_deleted_does_not_count(directory, monkeypatch):
    save(directory, 1, 2)
    monkeypatch.setattr(shutil, "rmtree", lambda *args, **kwargs: None)
    prune_checkpoints(directory, keep=1)
    assert directory.list_saved_steps() == [2]


def test_checkpoints_are_found_by_last_best_and_step(directory):
    save(directory, 1, 10, 2)
    validate(directory, {1: 0.1, 2: 0.9, 10: 0.5})
    assert [find_checkpoint(directory, name).name for name in ("last", "best", "1")] == ["step_10", "step_2", "step_1"]


@pytest.mark.parametrize(("name", "message"), [("best", "no best checkpoint is known"), ("7", "there are last and 1")])
def test_a_checkpoint_that_is_not_there_is_answered_with_those_that_are(directory, name, message):
    save(directory, 1)
    with pytest.raises(UsageError, match=message):
        find_checkpoint(directory, name)


def test_state_is_changed_key_by_key(directory):
    directory.write_state(status="running", step=1)
    directory.write_state(step=2)
    assert {k: v for k, v in directory.state.items() if k != "written"} == {"status": "running", "step": 2}


def test_the_reason_of_a_failure_does_not_survive_the_next_start(directory):
    directory.write_state(status="failed", reason="No space left on device")
    directory.write_state(step=2)
    assert directory.state["reason"] == "No space left on device"
    directory.write_state(status="running")
    assert "reason" not in directory.state


def test_a_reason_may_hold_any_text(directory):
    directory.write_state(status="failed", reason="ValueError: smile \ud83d")
    assert directory.state["reason"] == "ValueError: smile \ufffd"


def test_only_episodes_and_checkpoints_are_work(directory):
    directory.write_run({})
    assert not directory.holds_work
    save(directory, 1)
    assert directory.holds_work
