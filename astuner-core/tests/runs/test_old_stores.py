"""Stores of episodes that earlier versions have left behind: nothing in them stops a resumed run or a reader."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.schema import Unjudged, Verdict
from astuner.runs.store.codec import dump_episode
from astuner.runs.store.episode_store import EpisodeFiles, read_episodes
from astuner_devkit.episodes import episode

Stored = dict[str, Any]
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a store by hand, as the versions before wrote it: JSON with whatever was given."""

    def write(change: Callable[[Stored], Any] = lambda one: None, *more: Stored, verdict: Any = None) -> Path:
        stored = dump_episode(episode())
        stored["verdict"] = verdict
        change(stored)
        records = [{"kind": "episode", "episode": stored}, *more]
        (tmp_path / "train.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        (tmp_path / "validation.jsonl").touch()
        return tmp_path

    return write


def recall(directory: Path) -> Any:
    store = EpisodeFiles(directory, replay_after=0)
    try:
        return store.recall("train/1/t/0")
    finally:
        store.close()


def test_surrogates_are_mended_wherever_they_are(write: Write) -> None:
    def poison(stored: Stored) -> None:
        stored["output"]["metadata"] = {"final_answer": "smile \ud83d", "k\udc80": ["\udfff"]}
        stored["calls"][0]["reply"]["content"] = "\ud83d"
        stored["task"]["main_query"] = "how \ud800?"

    found = recall(write(poison))
    assert found.output.metadata == {"final_answer": "smile \ufffd", "k\ufffd": ["\ufffd"]}
    assert (found.calls[0].reply["content"], found.task.main_query) == ("\ufffd", "how \ufffd?")


def test_a_deep_value_next_to_a_surrogate_is_kept(write: Write) -> None:
    deep = json.loads("[" * 60 + "]" * 60)
    found = recall(write(lambda stored: stored["output"].update(metadata={"deep": deep, "text": "\ud83d"})))
    assert found.output.metadata == {"deep": deep, "text": "\ufffd"}


def test_metrics_that_are_not_numbers_are_left_out(write: Write) -> None:
    metrics = {"tool": "none", "nothing": None, "list": [1], "loss": float("nan"), "turns": 2}
    assert recall(write(lambda stored: stored["output"].update(log_metrics=metrics))).output.log_metrics == {"turns": 2.0}


@pytest.mark.parametrize("reward", [1e308, -1e308, float("nan"), float("inf"), "1", {"a": 1e308}])
def test_an_episode_whose_reward_is_refused_today_is_played_again(write: Write, reward: Any) -> None:
    assert recall(write(lambda stored: stored["output"].update(reward=reward))) is None


def test_readers_see_such_an_episode_as_a_failed_one(write: Write) -> None:
    (found,) = read_episodes(write(lambda stored: stored["output"].update(reward=1e308)), "train")
    assert (found.completed, found.reward, found.samples) == (False, None, ())
    assert (found.failures[-1].reason, "WorkflowOutput.reward is 1e+308" in found.failures[-1].detail) == ("workflow_error", True)


@pytest.mark.parametrize("reward", [1e308, float("nan"), "good"])
def test_a_verdict_that_is_refused_today_is_none(write: Write, reward: Any) -> None:
    verdicts = {"kind": "verdicts", "step": 1, "group": "train/1/t", "verdicts": {"train/1/t/0": {"reward": reward}}}
    directory = write(lambda stored: None, verdicts)
    (found,) = read_episodes(directory, "train")
    assert isinstance(found.verdict, Unjudged)
    assert found.verdict.reason == "bad_verdict"
    # The judge is asked again.
    assert recall(directory).verdict is None


def test_fields_of_a_users_subclass_are_ignored(write: Write) -> None:
    def extend(stored: Stored) -> None:
        stored["task"]["level"] = 3
        stored["output"]["trace"] = "t"

    found = recall(write(extend, verdict={"reward": 1.0, "confidence": 0.5}))
    assert (found.completed, found.verdict) == (True, Verdict(1.0))
