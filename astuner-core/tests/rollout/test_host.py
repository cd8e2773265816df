from __future__ import annotations

import gc
from pathlib import Path

import pytest

from astuner.episodes.rollout.garbage_collector import THRESHOLDS, relax_collector

JUDGE = """
from pathlib import Path


class Closing:
    def compute_reward(self, workflow_task, workflow_output):
        return 1.0

    def close(self):
        {close}
"""


def test_the_judge_is_closed_when_the_rollouts_end(run, tmp_path: Path):
    (tmp_path / "closing.py").write_text(JUDGE.format(close="Path(__file__).with_name('closed').touch()"))
    run(f"{tmp_path}/closing.py:Closing")
    assert (tmp_path / "closed").exists()


def test_a_judge_that_cannot_be_closed_is_told_and_the_run_is_good(run, tmp_path: Path):
    (tmp_path / "stuck.py").write_text(JUDGE.format(close="raise OSError('gone')"))
    played = run(f"{tmp_path}/stuck.py:Closing")
    assert set(played.rewards) == {1.0}
    assert any("could not be closed: OSError: gone" in text for text in played.notices)


def test_the_garbage_collector_has_its_own_pace_while_episodes_are_played_and_the_earlier_one_afterwards():
    before = gc.get_threshold(), gc.get_freeze_count()
    with relax_collector():
        assert gc.get_threshold() == THRESHOLDS
        assert gc.get_freeze_count() > 1000
    assert (gc.get_threshold(), gc.get_freeze_count()) == before


@pytest.mark.parametrize("thresholds", [(0, 10, 10), (100_000, 10, 10)])
def test_a_garbage_collector_that_is_slower_or_off_stays_as_it_is(thresholds: tuple[int, int, int]):
    before = gc.get_threshold()
    gc.set_threshold(*thresholds)
    try:
        with relax_collector():
            assert gc.get_threshold() == thresholds
    finally:
        gc.set_threshold(*before)


def test_what_the_user_has_frozen_stays_so():
    gc.freeze()
    try:
        with relax_collector():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
