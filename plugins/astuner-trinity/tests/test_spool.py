"""What processes that play write down, and the driver reads while it grows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from astuner.contract.schema import Episode, Group, Sample, Task, Unjudged, Verdict, WorkflowOutput
from astuner.runs.store.episode_store import EpisodeFiles, StoredEpisodes, read_episodes
from astuner_trinity.spool import JudgedGroup, Notice, PlayedEpisode, Spool, SpoolTail, keep, store_leftovers


def episode(name: str, step: int = 1, repeat: int = 0) -> Episode:
    ids = np.arange(5, dtype=np.int32)
    sample = Sample(
        episode_id=f"train/{step}/{name}/{repeat}",
        task_id=name,
        repeat=repeat,
        agent="agent",
        ids=ids,
        mask=ids > 2,
        logprobs=np.where(ids > 2, -0.5, 0).astype(np.float32),
        calls=(0,),
    )
    return Episode(
        id=sample.episode_id,
        task=Task(main_query="?", task_id=name),
        step=step,
        repeat=repeat,
        output=WorkflowOutput(),
        samples=(sample,),
    )


def group(name: str, step: int = 1) -> Group:
    judged = [episode(name, step, repeat).with_verdict(Verdict(reward=float(repeat))) for repeat in range(2)]
    return Group(task=Task(main_query="?", task_id=name), step=step, split="train", episodes=tuple(judged))


def written(spool: Spool, whole: Group) -> None:
    """Do as the runner does."""
    for one in whole.episodes:
        spool.add_episode(evolve(one, verdict=None))
    spool.add_verdicts(whole)
    spool.add_group(whole, 0.0)


def open_empty_store(directory: Path) -> StoredEpisodes:
    return StoredEpisodes(directory / "episodes", replay_after=None)


def test_a_group_comes_whole_with_its_verdicts(tmp_path: Path) -> None:
    spool, tail = (
        Spool(tmp_path / "played" / "a.jsonl", open_empty_store(tmp_path)),
        SpoolTail(tmp_path / "played", open_empty_store(tmp_path)),
    )
    whole = group("t")
    written(spool, whole)
    spool.say("look", "warning")
    *played, judged, said = tail.new()
    assert [one.episode.id for one in played if isinstance(one, PlayedEpisode)] == [one.id for one in whole.episodes]
    assert isinstance(judged, JudgedGroup)
    assert judged.fresh
    assert [one.reward for one in judged.group.episodes] == [0.0, 1.0]
    assert np.array_equal(judged.group.episodes[0].samples[0].ids, np.arange(5))
    assert said == Notice("look", "warning")
    assert list(tail.new()) == []


def test_a_line_that_is_not_whole_comes_later(tmp_path: Path) -> None:
    path = tmp_path / "played" / "a.jsonl"
    spool = Spool(path, open_empty_store(tmp_path))
    written(spool, group("t"))
    text = path.read_bytes()
    tail = SpoolTail(tmp_path / "played", open_empty_store(tmp_path))
    path.write_bytes(text[: len(text) - 20])
    assert not any(isinstance(one, JudgedGroup) for one in tail.new())
    path.write_bytes(text)
    assert [one.group.key for one in tail.new() if isinstance(one, JudgedGroup)] == ["train/1/t"]


def test_an_episode_of_an_earlier_attempt_is_neither_played_nor_stored_again(tmp_path: Path) -> None:
    store = EpisodeFiles(tmp_path / "episodes")
    whole = group("t", step=4)
    for one in whole.episodes:
        store.add_episode(one)
    store.add_verdicts(whole)
    store.close()
    earlier = StoredEpisodes(tmp_path / "episodes", replay_after=3)
    spool = Spool(tmp_path / "played" / "a.jsonl", earlier)
    assert [spool.recall(one.id).reward for one in whole.episodes] == [0.0, 1.0]  # type: ignore[union-attr]
    spool.add_group(whole, 0.0)
    (judged,) = SpoolTail(tmp_path / "played", StoredEpisodes(tmp_path / "episodes", replay_after=3)).new()
    assert isinstance(judged, JudgedGroup)
    assert not judged.fresh
    assert [one.reward for one in judged.group.episodes] == [0.0, 1.0]


def test_what_a_driver_that_died_left_over_is_stored(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "played" / "a.jsonl", open_empty_store(tmp_path))
    written(spool, group("t"))
    half = episode("u")
    spool.add_episode(half)
    store = EpisodeFiles(tmp_path / "episodes")
    # It had come so far.
    store.add_episode(evolve(group("t").episodes[0], verdict=None))
    store_leftovers(tmp_path / "played", tmp_path / "episodes", store)
    store.close()
    assert (tmp_path / "episodes" / "train.jsonl").read_text().count('"kind":"episode"') == 3
    found = {one.id: one.reward for one in read_episodes(tmp_path / "episodes", "train")}
    assert found == {"train/1/t/0": 0.0, "train/1/t/1": 1.0, half.id: None}
    assert list((tmp_path / "played").glob("*")) == []


def test_leftovers_that_this_start_has_cut_off_stay_out(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "played" / "a.jsonl", open_empty_store(tmp_path))
    written(spool, group("t"))
    store = EpisodeFiles(tmp_path / "episodes", replay_after=0)
    store.cut_after(0)
    store_leftovers(tmp_path / "played", tmp_path / "episodes", store)
    store.close()
    assert list(read_episodes(tmp_path / "episodes", "train")) == []


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(orders=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=12), cut=st.integers(0, 10**6))
def test_whatever_was_read_when_nothing_is_lost_or_doubled(tmp_path: Path, orders: Any, cut: int) -> None:
    """Several processes write, the driver looks at any moment, and stores each episode and verdict once."""
    import shutil

    shutil.rmtree(tmp_path, ignore_errors=True)
    spools = [Spool(tmp_path / "played" / f"{n}.jsonl", open_empty_store(tmp_path)) for n in range(3)]
    store = EpisodeFiles(tmp_path / "episodes")
    tail = SpoolTail(tmp_path / "played", open_empty_store(tmp_path))
    expected: set[str] = set()
    groups: list[str] = []

    def look() -> None:
        for one in tail.new():
            keep(one, store)
            if isinstance(one, JudgedGroup):
                groups.append(one.group.key)

    for number, (which, step) in enumerate(orders):
        whole = group(f"t{number}", step + 1)
        written(spools[which], whole)
        expected |= {one.id for one in whole.episodes}
        if (cut >> number) & 1:
            look()
    look()
    store.close()
    text = (tmp_path / "episodes" / "train.jsonl").read_text()
    found = list(read_episodes(tmp_path / "episodes", "train"))
    assert {one.id for one in found} == expected
    assert text.count('"kind":"episode"') == len(expected)
    assert all(isinstance(one.verdict, Verdict) for one in found)
    assert len(groups) == len(set(groups)) == len(orders)


def test_a_judge_that_failed_is_no_verdict(tmp_path: Path) -> None:
    spool, tail = (
        Spool(tmp_path / "played" / "a.jsonl", open_empty_store(tmp_path)),
        SpoolTail(tmp_path / "played", open_empty_store(tmp_path)),
    )
    failed = evolve(group("t"), episodes=(episode("t").with_verdict(Unjudged(reason="judge_error")),))
    written(spool, failed)
    judged = [one for one in tail.new() if isinstance(one, JudgedGroup)]
    assert judged[0].group.episodes[0].reward is None
