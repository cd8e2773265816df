"""What pages add up from the index is what core adds up from the episodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import asdict, evolve

from astuner.contract.schema import GREEDY, Group, Verdict
from astuner.episodes.judging.advantages import compute_advantages
from astuner.episodes.judging.estimators import Grpo
from astuner.episodes.transcript.signal_waterfall import build_waterfall
from astuner.runs.inspection.run import Run
from astuner.runs.store.directory import RunDirectory
from astuner_devkit.episodes import episode as make_up
from astuner_logview.library import Library
from astuner_logview.pages.compare import compare
from astuner_logview.parameters import Parameters
from astuner_tools.comparison import compare_runs
from astuner_tools.replays.agreement import AgreementCount

Ask = Callable[..., dict[str, Any]]
Make = Callable[[Path], Path]


def test_the_waterfall_is_that_of_core(ask: Ask, groups: list[Group]) -> None:
    core = build_waterfall(groups, compute_advantages(groups, Grpo()))
    sampled, in_samples, trainable, with_signal = ask("/waterfall")["stages"]
    assert (sampled["count"], in_samples["count"]) == (core.sampled, core.trained)
    assert (trainable["count"], with_signal["count"]) == (core.trainable, core.with_signal)
    losses = {one["reason"]: one["count"] for one in sampled["losses"]}
    assert losses == {**core.untrained, "unexplained": core.unexplained}
    assert {one["reason"]: one["count"] for one in in_samples["losses"]} == core.unrewarded
    assert [one["count"] for one in trainable["losses"]] == [core.without_signal]


@pytest.mark.parametrize("step", [None, 1, 2])
def test_every_loss_leads_to_its_episodes(ask: Ask, step: int | None) -> None:
    answer = ask("/waterfall", **({} if step is None else {"step": step}))
    losses = [loss for stage in answer["stages"] for loss in stage["losses"] if loss["reason"] != "unexplained"]
    assert losses
    assert [ask("/episodes", filter=loss["filter"])["total"] for loss in losses] == [loss["episodes"] for loss in losses]


def test_greedy_siblings_are_shown_and_count_in_no_sum(
    ask: Ask, groups: list[Group], record: Path, store: Callable[[Path, list[Group]], None]
) -> None:
    sums = ("/waterfall", "/steps", "/judge")
    before, play = [ask(page) for page in sums], ask("/task", task="b")["plays"][0]
    store(record / "first", [evolve(groups[1], episodes=(), greedy=make_up(GREEDY, 0.0, task="b"))])
    again = ask("/task", task="b")["plays"][0]
    assert [ask(page) for page in sums] == before
    assert (again["reward_mean"], len(again["episodes"])) == (play["reward_mean"], len(play["episodes"]) + 1)
    assert [one["repeat"] for one in ask("/group", split="train", step=1, task="b")["siblings"]] == [GREEDY, 0, 1]
    assert ask("/episode", id=f"train/1/b/{GREEDY}")["repeat"] == GREEDY


def test_advantages_are_those_of_core(ask: Ask, groups: list[Group]) -> None:
    rows = compute_advantages(groups, Grpo())
    expected: dict[str, dict[str, float]] = {}
    for row in rows:
        expected.setdefault(row.sample.episode_id, {})[row.sample.agent] = row.advantage
    for episode in (one for group in groups for one in group.episodes):
        assert ask("/episode", id=episode.id)["advantages"] == expected.get(episode.id, {})


def test_steps_name_their_worst_group_with_a_signal(ask: Ask) -> None:
    first, second = ask("/steps")["steps"]
    assert (first["step"], first["episodes"], first["failed"], first["groups"], first["time_s"]) == (1, 5, 1, 2, 2.0)
    assert (first["reward_mean"], first["success_rate"], first["without_signal"]) == (0.5, 0.5, 1)
    assert (first["worst"]["task"], second["worst"]["task"]) == ("a", "c")
    assert first["worst"]["href"].endswith("/g/train/1/a")


def test_the_judge_page_has_components_and_failures(ask: Ask) -> None:
    answer = ask("/judge")
    (component,) = answer["components"]
    assert (component["name"], component["mean"], component["histogram"]) == ("format", 0.5, [[0.5, 0.5, 1]])
    assert (answer["rewards"]["count"], answer["rewards"]["by_step"]) == (5, [[1, 0.5], [2, 0.25]])
    (failure,) = answer["failures"]
    assert (failure["reason"], failure["count"], failure["detail"]) == ("judge_timeout", 1, "no answer")
    assert ask("/episodes", filter=failure["filter"])["total"] == 1


def test_agreement_with_a_replay_is_that_of_core(
    ask: Ask, record: Path, groups: list[Group], store: Callable[[Path, list[Group]], None]
) -> None:
    flipped = [evolve(one, episodes=tuple(evolve(each, verdict=Verdict(1.0, False)) for each in one.episodes)) for one in groups]
    replay = RunDirectory(record / "first" / "replays" / "other")
    replay.open()
    replay.write_run({"replay_of": str((record / "first").resolve())})
    replay.close()
    store(replay.path, flipped)
    count = AgreementCount(by_agent=True)
    for before, after in zip(groups, flipped, strict=True):
        count.add(before, after)
    core, answer = count.sum_up(), ask("/agreement", replay="other")
    assert answer["agreement"] == core.agreement
    numbers = {one["label"]: one["value"] for one in answer["numbers"]}
    assert (numbers["episodes"], numbers["equal rewards"], numbers["pairs of siblings with different rewards"]) == (
        core.episodes,
        core.equal,
        core.pairs,
    )
    assert (numbers["equal now"], numbers["equal success"]) == (core.pairs_tied, core.success_agreement)
    assert [one["id"] for one in answer["flips"] if one["kind"] == "to_failure"] == list(core.to_failure)
    assert [one["id"] for one in answer["flips"] if one["kind"] == "gained"] == list(core.gained)
    assert [one["task"] for one in answer["signal_lost"]] == [key.rpartition("/")[2] for key in core.signal_lost]


def test_runs_are_compared_as_core_compares_them(
    record: Path, library: Library, make: Make, groups: list[Group], store: Callable[[Path, list[Group]], None]
) -> None:
    make(record / "second")
    store(record / "second", [evolve(groups[1], episodes=groups[1].episodes[:1])])
    names = {one.run.name: one.id for one in library.list_runs()}
    answer = compare(library, Parameters(values={"run": [names["first"], names["second"]]}))
    core = compare_runs([Run(record / "first"), Run(record / "second")])
    assert (answer["split"], answer["measure"], answer["same_tasks"]) == (core.split, core.measure, core.same_tasks)
    assert answer["tasks"] == [{"task": one.task, "scores": list(one.scores)} for one in core.tasks]
    assert answer["configuration"] == [asdict(one) for one in core.configuration]
