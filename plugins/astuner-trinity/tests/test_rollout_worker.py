"""A group counts as played once its rows are on their way to the trainer, and not before."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("trinity")

from astuner.contract.schema import Episode, Group, Sample, Task, Verdict, WorkflowOutput
from astuner.episodes.judging.estimators import Grpo
from astuner.runs.store.episode_store import StoredEpisodes
from astuner_devkit.run_infos import run_info
from astuner_trinity.explorer.rollout_worker import RolloutWorker
from astuner_trinity.layout import Layout
from astuner_trinity.spool import JudgedGroup, Spool, SpoolTail

TASK = Task(main_query="?", task_id="t")


class Runner:
    """Plays two episodes without asking anybody."""

    async def run(self, tasks: list[Task], round_: Any) -> list[Group]:
        return [
            Group(task=task, step=round_.step, split="train", episodes=(self._episode(0), self._episode(1))) for task in tasks
        ]

    def _episode(self, repeat: int) -> Episode:
        sample = Sample(
            episode_id=f"train/1/t/{repeat}",
            task_id="t",
            repeat=repeat,
            agent="agent",
            ids=np.arange(4, dtype=np.int32),
            mask=np.arange(4) > 1,
            logprobs=np.zeros(4, np.float32),
            calls=(0,),
        )
        made = Episode(id=sample.episode_id, task=TASK, step=1, repeat=repeat, output=WorkflowOutput(), samples=(sample,))
        return made.with_verdict(Verdict(reward=float(repeat)))


class Broken:
    """An estimator of somebody's that is not done yet."""

    def advantages(self, rewards: Any) -> Any:
        raise ZeroDivisionError("no spread")


def worker(home: Path, estimator: Any) -> RolloutWorker:
    run, unused = run_info(home), Any
    spool = Spool(home / "played" / "a.jsonl", StoredEpisodes(home / "episodes", replay_after=None))
    parts: Any = {
        "runner": Runner(),
        "estimator": estimator or Grpo.from_run(None, run),
        "versions": unused,
        "stack": unused,
        "steps_before": 0,
    }
    return RolloutWorker(run_info=run, layout=Layout(home), spool=spool, **parts)


def whole(home: Path) -> list[str]:
    tail = SpoolTail(home / "played", StoredEpisodes(home / "episodes", replay_after=None))
    return [one.group.key for one in tail.new() if isinstance(one, JudgedGroup)]


def test_a_group_is_whole_with_its_rows(tmp_path: Path) -> None:
    rows = asyncio.run(worker(tmp_path, None).play(TASK, 1, "train", 2))
    assert len(rows) == 2
    assert whole(tmp_path) == ["train/1/t"]


def test_a_group_of_which_no_rows_came_is_missing(tmp_path: Path) -> None:
    """So that the driver says so: the trainer would wait for the rows."""
    with pytest.raises(ZeroDivisionError):
        asyncio.run(worker(tmp_path, Broken()).play(TASK, 1, "train", 2))
    assert whole(tmp_path) == []
