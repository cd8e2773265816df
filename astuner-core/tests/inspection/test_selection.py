"""Which episodes of a run are shown, in which order, and what a damaged or a growing file costs."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from astuner.contract.errors import UsageError
from astuner.contract.schema import Episode, Verdict
from astuner.runs.inspection.run import Run
from astuner.runs.store.episode_store import EpisodeFiles
from astuner_devkit.episodes import episode, group


def select(path: Path, **wanted: Any) -> list[str]:
    return [one.id.removeprefix("train/") for one in Run(path).episodes(**wanted)]


def test_siblings_are_side_by_side_and_have_their_later_verdicts(write_run, stored):
    found = list(Run(write_run(episodes=stored)).episodes())
    assert [(one.id, one.reward) for one in found] == [
        ("train/1/b/0", 0.25),
        ("train/1/b/1", 1.0),
        ("train/1/a/0", 0.0),
        ("train/1/a/1", None),
        ("train/2/b/0", None),
        ("train/2/b/1", 0.5),
    ]


@pytest.mark.parametrize(
    ("wanted", "ids"),
    [
        ({"step": 2}, ["2/b/0", "2/b/1"]),
        ({"task": "a"}, ["1/a/0", "1/a/1"]),
        ({"step": 1, "task": "b"}, ["1/b/0", "1/b/1"]),
        ({"failed": True}, ["1/a/1", "2/b/0"]),
        ({"lowest": 2}, ["1/a/0", "1/b/0"]),
        ({"highest": 2}, ["1/b/1", "2/b/1"]),
        ({"min_reward": 0.5}, ["1/b/1", "2/b/1"]),
        ({"min_reward": 0.0, "lowest": 1}, ["1/a/0"]),
        ({"highest": 9, "step": 2}, ["2/b/1"]),
        ({"highest": 1, "lowest": 1}, ["1/b/1", "1/a/0"]),
        ({"grep": "too slow"}, ["1/a/1"]),
        ({"grep": "reward 0.5"}, ["2/b/1"]),
        ({"grep": "assistant: 3", "lowest": 1}, ["1/a/0"]),
        ({"grep": "not there"}, []),
    ],
    ids=str,
)
def test_all_conditions_hold_together(write_run, stored, wanted, ids):
    assert select(write_run(episodes=stored), **wanted) == ids


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"step": 7}, r"train\.jsonl: no episodes of step 7; there are those of steps 1 to 2"),
        ({"task": "aa"}, r"no episodes of a task 'aa'\. Did you mean 'a'\?"),
        ({"task": "a", "step": 2}, r"no episodes of a task 'a' in step 2\. There are: b\."),
    ],
    ids=str,
)
def test_what_is_not_stored_is_refused_at_once(write_run, stored, wanted, message):
    run = Run(write_run(episodes=stored))
    with pytest.raises(UsageError, match=message):
        run.episodes(**wanted)


def test_of_equal_rewards_those_come_first_whose_siblings_did_otherwise(write_run):
    rewards = {"dull": (0.0, 0.0), "mixed": (0.0, 0.5), "won": (1.0, 1.0), "best": (0.0, 1.0)}
    path = write_run(episodes=[episode(repeat, rewards[task][repeat], task=task) for task in rewards for repeat in (0, 1)])
    assert [one.rpartition("/")[0] for one in select(path, lowest=3)] == ["1/best", "1/mixed", "1/dull"]
    assert select(path, highest=1) == ["1/best/1"]


def test_a_run_that_only_validated_shows_its_validation(write_run):
    run = Run(write_run(episodes=[episode(split="validation", step=0)]))
    assert [one.id for one in run.episodes()] == ["validation/0/t/0"]
    assert list(run.episodes(split="train")) == []


def test_the_last_record_of_an_episode_and_of_its_verdict_counts(write_run):
    path = write_run(episodes=[episode(0, 0.5)])
    store = EpisodeFiles(path / "episodes")
    again = evolve(episode(0, 1.0), duration_s=9.0)
    store.add_episode(evolve(again, verdict=None))
    assert [(one.duration_s, one.reward) for one in Run(path).episodes()] == [(9.0, None)]
    store.add_verdicts(group(again.with_verdict(Verdict(0.75))))
    assert [(one.duration_s, one.reward) for one in Run(path).episodes()] == [(9.0, 0.75)]
    store.close()


def test_a_damaged_line_costs_one_episode_and_is_reported_once(write_run, stored):
    path = write_run(episodes=stored)
    file = path / "episodes/train.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"train-", b"trein-").replace(b'"repeat":1', b'"repeat":7')
    file.write_bytes(b"".join(lines))
    said: list[str] = []
    run = Run(path, said.append)
    assert [one.id for one in run.episodes(step=1, task="b")] == ["train/1/b/0"]
    assert len(list(run.episodes(step=2))) == 2
    assert len(list(run.episodes())) == 5
    assert said == [f"{file}:3: 1 line is damaged and left out: each is an episode, or the verdicts of a group"]


def test_what_is_lost_between_two_looks_is_reported(write_run, stored):
    path = write_run(episodes=stored)
    said: list[str] = []
    run = Run(path, said.append)
    found = run.episodes(step=2)
    file = path / "episodes/train.jsonl"
    file.write_bytes(file.read_bytes().replace(b'"id":"train/2/b/0"', b'"id":"train/2/b/9"'))
    assert [one.id for one in found] == ["train/2/b/1"]
    assert said == [f"{file}: 1 episode is damaged and left out: train/2/b/0"]


def test_a_line_that_is_being_written_is_left_for_the_next_look(write_run, stored):
    path = write_run(episodes=stored)
    with (path / "episodes/train.jsonl").open("ab") as file:
        file.write(b'{"crc":"00000000","kind":"episo')
    said: list[str] = []
    assert len(list(Run(path, said.append).episodes())) == 6
    assert said == []


def test_one_episode_at_a_time_is_in_memory(write_run):
    large = "x" * 1_000_000

    def fill(repeat: int) -> Episode:
        call = evolve(episode().calls[0], reply={"role": "assistant", "content": large})
        return evolve(episode(repeat, float(repeat)), calls=(call,))

    run = Run(write_run(episodes=[fill(repeat) for repeat in range(40)]))
    tracemalloc.start()
    assert sum(1 for _ in run.episodes(grep=large)) == 40
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # A line is read, decoded and shown: several copies of one episode, not of 40.
    assert peak < 12 * len(large)
