from __future__ import annotations

from pathlib import Path

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
