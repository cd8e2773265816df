"""Several workers give what one process gives: the same episodes, verdicts, metrics and failures, whatever ends meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from harness import REPOSITORY

from astuner.contract.errors import AstunerError, ConfigError, Interrupted, RunFailed
from astuner.contract.schema import GREEDY, Episode, Sampling, Task
from astuner.episodes.rollout.runner import Round, make_episode_id
from astuner.runs.driver.launch import start_run
from astuner.runs.driver.run_request import RunRequest
from astuner.runs.store.codec import dump_episode
from astuner.runs.store.episode_store import read_episodes
from astuner.shared.processes import list_programs
from astuner_devkit import PlayedRun
from astuner_devkit.episodes import episode
from astuner_rollout_workers.pending_group import PendingGroup

Play = Callable[..., PlayedRun]
SERVING = REPOSITORY / "tests" / "support" / "serving_backbone.py"


def describe(episode: Episode) -> dict[str, Any]:
    """Everything of an episode but times, the process in which its workflow ran, and tracebacks, which name its class."""
    found = dump_episode(evolve(episode, duration_s=0.0))
    for call in found["calls"]:
        call["latency_s"] = 0.0
    for failure in found["failures"]:
        failure["traceback"] = ""
    if found["output"] is not None:
        found["output"]["metadata"] = {k: v for k, v in found["output"]["metadata"].items() if k != "pid"}
    return found


def pids(played: PlayedRun) -> set[int]:
    return {episode.output.metadata["pid"] for episode in played.episodes if episode.output is not None}


def read_ids(directory: Path) -> Counter[str]:
    lines = (directory / "episodes" / "train.jsonl").read_text(encoding="utf-8").splitlines()
    records = map(json.loads, lines)
    return Counter(record["episode"]["id"] for record in records if record["kind"] == "episode")


def of_time(name: str) -> bool:
    return name.startswith("time/") or name.endswith("per_s")


@pytest.fixture
def alone(world: Play) -> PlayedRun:
    return world(1)


def test_two_workers_give_what_one_process_gives(world: Play, alone: PlayedRun) -> None:
    several = world(2)
    assert [describe(e) for e in several.episodes] == [describe(e) for e in alone.episodes]
    assert {k: v for k, v in several.metrics.items() if not of_time(k)} == {
        k: v for k, v in alone.metrics.items() if not of_time(k)
    }
    assert len(pids(several)) == 2
    assert len(pids(alone)) == 1


def test_two_workers_play_the_greedy_siblings_of_one_process(world: Play) -> None:
    more = {"trainer_common": {"algorithm": {"adv_estimator": "remax"}}}
    alone, several = (world(count, more=more) for count in (1, 2))
    assert [describe(one) for played in several.groups for one in played.played] == [
        describe(one) for played in alone.groups for one in played.played
    ]
    assert [len(played.played) for played in several.groups] == [4] * 6
    assert several.metrics["greedy/reward_mean"] == alone.metrics["greedy/reward_mean"]
    ids = read_ids(several.directory)
    assert (len(ids), max(ids.values()), sum(one.endswith("/greedy") for one in ids)) == (24, 1, 6)


def test_a_group_waits_for_its_greedy_sibling() -> None:
    async def add_all() -> list[tuple[int, bool]]:
        round_ = Round(step=1, split="train", repeats=2, sampling=Sampling(), greedy=True)
        pending, found = PendingGroup(task=Task(task_id="t"), round=round_), []
        for repeat in (0, 1, GREEDY):
            identity = make_episode_id("train", 1, "t", repeat)
            pending.add(evolve(episode(repeat, 1.0), id=identity))
            found.append((pending.missing, pending.is_judged()))
        assert [one.repeat for one in pending.build({}).played] == [0, 1, GREEDY]
        return found

    assert asyncio.run(add_all()) == [(2, False), (1, False), (0, True)]


def test_a_notice_of_all_workers_is_shown_once(world: Play) -> None:
    told = [text for text in world(2).notices if "log_metrics['text']" in text]
    assert len(told) == 1


def test_the_store_has_every_episode_once(world: Play) -> None:
    ids = read_ids(world(2).directory)
    assert (len(ids), max(ids.values())) == (18, 1)


def test_a_worker_that_is_killed_loses_nothing(world: Play, alone: PlayedRun) -> None:
    several = world(2, "Crashing")
    assert [describe(e) for e in several.episodes] == [describe(e) for e in alone.episodes]
    ids = read_ids(several.directory)
    assert (len(ids), max(ids.values())) == (18, 1)
    assert [text for text in several.notices if "has ended (exit status -9)" in text]


def test_a_task_that_ends_every_worker_ends_the_run(world: Play, tmp_path: Path) -> None:
    (tmp_path / "always").touch()
    with pytest.raises(RunFailed, match=r"3 rollout workers have ended while they played the task 't3'"):
        world(2, "Crashing")


def test_workers_leave_no_process_behind(world: Play) -> None:
    world(2, "Crashing")
    assert list_programs() == []


def test_the_failure_budget_is_that_of_the_whole_step(world: Play) -> None:
    with pytest.raises(RunFailed, match=r"1 of 18 episodes of step 1 \(train\) have no reward"):
        world(2, failure_budget=0.01)


def test_an_error_in_a_worker_comes_with_its_text(world: Play) -> None:
    with pytest.raises(AstunerError, match=r"(?s)world\.py:Unmade.*the judge needs a key"):
        world(2, judge="./world.py:Unmade")


def test_workers_reach_the_engine_themselves_where_they_can(world: Play, alone: PlayedRun) -> None:
    several = world(2, engine="SharedSeededEngine")
    assert [describe(e) for e in several.episodes] == [describe(e) for e in alone.episodes]
    assert {int(file.name.partition("-")[2]) for file in several.directory.glob("asked-*")} == pids(several)


def test_requests_go_through_the_driver_where_workers_cannot_reach_the_engine(world: Play) -> None:
    several = world(2)
    assert not pids(several) & {int(file.name.partition("-")[2]) for file in several.directory.glob("asked-*")}


@pytest.mark.parametrize("option", [{"port": 9}, {"public_url": "http://agents.example"}])
def test_several_workers_are_refused_for_a_gateway_with_one_address(run: Any, option: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="2 rollout workers are not possible: gateway"):
        run(settings={"rollout": {"players": 2}, "gateway": option})


def test_breakpoints_need_one_process(world: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astuner.episodes.rollout.group_runner.expects_stops", lambda: True)
    played = world(2)
    assert len(pids(played)) == 1
    assert [text for text in played.notices if text.startswith("breakpoints: one rollout worker plays")]


def test_a_run_that_was_stopped_goes_on_where_it_was(world: Play, alone: PlayedRun, tmp_path: Path) -> None:
    settings = {"trainer_common": {"total_training_steps": 1}}
    with pytest.raises(Interrupted):
        world(2, "Stopping", more=settings, backbone=f"{SERVING}:ServingBackbone")
    directory = tmp_path / "launcher_record" / "run2"
    before = read_ids(directory)
    assert len(before) == 12
    (tmp_path / "stop").touch()
    resumed = start_run(RunRequest(conf=tmp_path / "run2.yaml", resume=True))
    ids = read_ids(resumed.directory)
    assert (len(ids), max(ids.values())) == (18, 1)
    found = {episode.id: describe(episode) for episode in read_episodes(resumed.directory / "episodes", "train")}
    assert {key: value["samples"] for key, value in found.items()} == {e.id: describe(e)["samples"] for e in alone.episodes}
    assert list_programs() == []
