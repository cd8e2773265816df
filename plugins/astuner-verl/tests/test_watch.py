"""What is told of a trainer that failed, and of a checkpoint that it cannot go on from."""

from __future__ import annotations

from pathlib import Path

import pytest

from astuner.contract.errors import UsageError
from astuner_verl.watch import Watch


def test_the_last_lines_are_those_that_tell_something(tmp_path: Path) -> None:
    noise = ":actor_name:Host\n/lib/x.py:3: FutureWarning: soon\n  warnings.warn(\n"
    (tmp_path / "worker-1.err").write_text(noise)
    assert Watch(logs=tmp_path)._last_lines() == ""
    (tmp_path / "worker-2.err").write_text(f"{noise}RuntimeError: out of memory\n")
    assert Watch(logs=tmp_path)._last_lines() == ". The last lines of worker-2.err:\nRuntimeError: out of memory"


def test_another_number_of_workers_is_refused(tmp_path: Path) -> None:
    from astuner_verl.learner import _check_state

    native = {"trainer": {"nnodes": 1, "n_gpus_per_node": 1}}
    with pytest.raises(UsageError, match="holds no trainer/ of verl"):
        _check_state(tmp_path, native)
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer" / "model_world_size_2_rank_0.pt").touch()
    with pytest.raises(UsageError, match="was saved by 2 workers, and the run has 1 now"):
        _check_state(tmp_path, native)


def test_a_slow_start_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    answers = [([], []), ([], []), (["answer"], [])]
    monkeypatch.setattr(ray, "wait", lambda asked, timeout: answers.pop(0))
    monkeypatch.setattr(ray, "get", lambda answer: 42)
    monkeypatch.setattr("astuner_verl.watch.TELL_S", 0.0)
    said: list[str] = []
    assert Watch(logs=tmp_path).get("asked", "starting the trainer", said.append) == 42
    assert said == ["starting the trainer, 0 s"] * 3
