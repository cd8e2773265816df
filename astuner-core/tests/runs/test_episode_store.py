from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from attrs import asdict, evolve, frozen
from hypothesis import given
from hypothesis import strategies as st

from astuner.contract.errors import RunFailed
from astuner.contract.schema import Failure, Task, Unjudged, Verdict
from astuner.runs.store.codec import dump_episode, load_episode
from astuner.runs.store.episode_store import EpisodeFiles, StoredEpisodes, read_episodes
from astuner_devkit.episodes import episode, group


def plain(found):
    """An episode as nested plain values, arrays as lists with their type."""
    return json.dumps(asdict(found), default=lambda a: [str(a.dtype), a.tolist()], sort_keys=True)


def test_an_episode_survives_the_file_exactly():
    before = evolve(episode(verdict := 0, 0.25), failures=(Failure(reason="timeout", retried=True),), untrained={"cut": 1})
    assert verdict == 0
    assert plain(load_episode(json.loads(json.dumps(dump_episode(before))))) == plain(before)


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=20))
def test_every_float32_survives_bit_for_bit(values):
    array = np.array(values, dtype=np.float32)
    call = evolve(episode().calls[0], logprobs=array, output_ids=np.zeros(len(array), dtype=np.int32))
    back = load_episode(json.loads(json.dumps(dump_episode(evolve(episode(), calls=(call,))))))
    assert back.calls[0].logprobs.tobytes() == array.tobytes()


@given(st.lists(st.floats(-1e4, 0, width=32), max_size=20))
def test_log_probabilities_are_stored_with_nine_significant_digits(values):
    call = evolve(
        episode().calls[0], logprobs=np.array(values, dtype=np.float32), output_ids=np.zeros(len(values), dtype=np.int32)
    )
    stored = dump_episode(evolve(episode(), calls=(call,)))["calls"][0]["logprobs"]
    assert list(map(repr, stored)) == [repr(float(f"{value:.9g}")) for value in values]


def test_only_episodes_after_the_checkpoint_are_recalled(tmp_path):
    store = EpisodeFiles(tmp_path)
    for step in (1, 2, 3):
        store.add_episode(evolve(episode(step=step), verdict=None))
    store.close()
    again = EpisodeFiles(tmp_path, replay_after=2)
    assert [again.recall(f"train/{step}/t/0") is not None for step in (1, 2, 3)] == [False, False, True]
    again.close()


def test_verdicts_come_back_with_their_episodes(tmp_path):
    store = EpisodeFiles(tmp_path)
    for repeat, reward in enumerate((0.5, None)):
        store.add_episode(evolve(episode(repeat, reward), verdict=None))
    store.add_verdicts(group(episode(0, 0.5), episode(1, None)))
    store.add_episode(evolve(episode(step=2), verdict=None))
    store.close()
    again = EpisodeFiles(tmp_path, replay_after=0)
    assert again.recall("train/1/t/0").verdict == Verdict(0.5)
    assert again.recall("train/1/t/1").verdict == Unjudged(reason="judge_error")
    again.close()


def test_what_a_judge_failed_at_in_the_last_step_is_asked_again(tmp_path):
    store = EpisodeFiles(tmp_path)
    for repeat in range(2):
        store.add_episode(evolve(episode(repeat), verdict=None))
    store.add_verdicts(group(episode(0, 0.5), episode(1, None)))
    store.close()
    again = EpisodeFiles(tmp_path, replay_after=0)
    assert again.recall("train/1/t/0").verdict == Verdict(0.5)
    assert again.recall("train/1/t/1").verdict is None
    again.close()


def test_a_step_whose_weights_were_validated_is_not_judged_again(tmp_path):
    store = EpisodeFiles(tmp_path)
    for split in ("train", "validation"):
        episodes = [episode(0, 0.5, split=split), episode(1, None, split=split)]
        for one in episodes:
            store.add_episode(evolve(one, verdict=None))
        store.add_verdicts(group(*episodes))
    store.close()
    again = EpisodeFiles(tmp_path, replay_after=0)
    assert again.recall("train/1/t/1").verdict == Unjudged(reason="judge_error")
    assert again.recall("validation/1/t/1").verdict is None
    again.close()


STORED = [f"{split}/{step}/t/0" for step in (1, 2, 3) for split in ("train", "validation")]


@pytest.fixture
def cut(tmp_path):
    store = EpisodeFiles(tmp_path)
    for step in (1, 2, 3):
        for split in ("train", "validation"):
            store.add_episode(episode(step=step, split=split))
    store.close()
    again = EpisodeFiles(tmp_path, replay_after=0)
    assert again.cut_after(2) == 3
    yield again
    again.close()


def test_what_other_weights_sampled_is_cut_off(cut):
    assert [key for key in STORED if cut.recall(key)] == ["train/1/t/0", "validation/1/t/0", "train/2/t/0"]


def test_a_later_start_finds_nothing_beyond_a_cut_but_what_was_added_since(cut, tmp_path):
    cut.add_episode(episode(step=3, split="train"))
    later = StoredEpisodes(tmp_path, replay_after=0)
    assert [key for key in STORED if later.recall(key)] == ["train/1/t/0", "validation/1/t/0", "train/2/t/0", "train/3/t/0"]


def test_readers_of_the_files_see_nothing_beyond_a_cut(cut, tmp_path):
    assert [one.step for one in read_episodes(tmp_path, "validation")] == [1]


def test_others_read_while_a_run_writes(tmp_path):
    store = EpisodeFiles(tmp_path)
    store.add_episode(evolve(episode(step=3), verdict=None))
    # Just being written.
    with store.path("train").open("ab") as file:
        file.write(b'{"kind":"episode","epi')
    found = StoredEpisodes(tmp_path, replay_after=2)
    assert found.recall("train/3/t/0") is not None
    assert found.recall("train/3/t/0") is None
    assert StoredEpisodes(tmp_path, replay_after=None).recall("train/3/t/0") is None
    assert store.path("train").read_bytes().endswith(b'"epi')
    store.close()


@pytest.mark.parametrize("cut", [1, 10, 500])
def test_a_line_cut_short_by_a_crash_is_dropped_and_the_rest_is_kept(tmp_path, cut):
    store = EpisodeFiles(tmp_path)
    store.add_episode(episode(0))
    store.add_episode(episode(1))
    store.close()
    path = store.path("train")
    path.write_bytes(path.read_bytes()[:-cut])
    again = EpisodeFiles(tmp_path, replay_after=0)
    assert again.recall("train/1/t/1") is None
    again.add_episode(episode(1, 0.75))
    again.close()
    assert [e.reward for e in read_episodes(tmp_path, "train")] == [1.0, 0.75]


def test_what_json_does_not_have_is_stored_as_text_and_reported(tmp_path):
    told = []
    store = EpisodeFiles(tmp_path, report=told.append)
    store.add_episode(evolve(episode(), observations={"seen": {1}, "text": "\ud83d", "score": np.float32(0.5), (1, 2): print}))
    store.close()
    (back,) = read_episodes(tmp_path, "train")
    assert back.observations == {"seen": [1], "text": "\ufffd", "score": 0.5, "(1, 2)": str(print)}
    assert told == ["the store of episodes was given what JSON does not have, and keeps its text: a tuple"]


def test_a_task_of_a_users_class_is_stored_as_a_task(tmp_path):
    @frozen
    class Level(Task):
        level: Any = None

    store = EpisodeFiles(tmp_path)
    store.add_episode(evolve(episode(), task=Level("q", task_id="t", level={1})))
    store.close()
    assert next(read_episodes(tmp_path, "train")).task == Task("q", task_id="t")


@pytest.fixture
def lost(tmp_path):
    """A store whose run has ended through its failure budget: one sibling failed, one was judged."""
    store = EpisodeFiles(tmp_path)
    failed = evolve(episode(1), output=None, failures=(Failure(reason="workflow_error"),), verdict=None)
    for one in (episode(0, 0.5), failed):
        store.add_episode(evolve(one, verdict=None))
    store.add_verdicts(group(episode(0, 0.5), failed))
    store.forget("train", ["train/1/t/1"], ["train/1/t/0"])
    return store


def test_a_lost_episode_is_forgotten_and_its_sibling_is_judged_again(lost, tmp_path):
    lost.close()
    again = EpisodeFiles(tmp_path, replay_after=0)
    assert (again.recall("train/1/t/1"), again.recall("train/1/t/0").verdict) == (None, None)
    assert not again.is_replayed("train/1/t/1")
    again.close()


def test_readers_still_see_a_lost_episode_until_it_is_played_again(lost, tmp_path):
    assert [one.completed for one in read_episodes(tmp_path, "train")] == [True, False]
    lost.add_episode(episode(1, 1.0))
    lost.close()
    assert [one.completed for one in read_episodes(tmp_path, "train")] == [True, True]


def test_what_was_played_after_the_loss_is_recalled(lost, tmp_path):
    lost.add_episode(episode(1, 1.0))
    lost.close()
    again = EpisodeFiles(tmp_path, replay_after=0)
    assert again.recall("train/1/t/1").reward == 1.0
    again.close()


def test_a_full_disk_is_said_and_names_the_way_on(tmp_path):
    store = EpisodeFiles(tmp_path)
    store._files["train"].close()
    store._files["train"] = open("/dev/full", "ab", buffering=0)  # noqa: SIM115 - the store closes it
    with pytest.raises(RunFailed, match=r"train\.jsonl: No space left on device.*--resume"):
        store.add_episode(episode())
    store.close()
