"""A greedy sibling is played, judged and stored like the others, and is none of them: it is only compared with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scripted_rounds import Playing, make_failing

from astuner.contract.errors import FailureBudgetExceeded
from astuner.contract.protocols import EstimatorTraits, Judge, Streams
from astuner.contract.schema import GREEDY, Unjudged, Verdict
from astuner.episodes.judging.advantages import compute_advantages, has_no_signal
from astuner.episodes.rollout.metrics import compute_rollout_metrics
from astuner.runs.store.episode_store import read_episodes
from astuner_devkit.episodes import episode, group

GREEDY_IDS = [f"train/1/t{number}/greedy" for number in range(3)]


class ByTemperature(Playing):
    """Notes the temperature of each call."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.greedy = True
        self.temperatures: list[float] = []

    def says(self, prompt: str, request: Any) -> str:
        self.temperatures.append(request.sampling.temperature)
        return super().says(prompt, request)


class Beyond:
    """The reward beyond that of the greedy sibling."""

    traits = EstimatorTraits(gives_streams=True, wants_greedy=True, group_relative=False)

    def signal(self, groups: Any) -> Any:
        return [[Streams(advantages=0.0 if o.greedy is None else o.reward - o.greedy) for o in own] for own in groups]


@pytest.fixture
def playing(tmp_path: Path) -> ByTemperature:
    return ByTemperature(tmp_path)


def test_it_is_sampled_at_temperature_0_and_none_of_the_group(playing: ByTemperature):
    groups = playing.play()
    assert sorted(playing.temperatures) == [0.0] * 3 + [1.0] * 6
    assert [[one.repeat for one in played.episodes] for played in groups] == [[0, 1]] * 3
    assert [played.greedy.id for played in groups] == GREEDY_IDS
    assert [call.temperature for played in groups for call in played.greedy.calls] == [0.0] * 3


def test_without_the_wish_none_is_played(playing: ByTemperature):
    playing.greedy = False
    assert [played.greedy for played in playing.play()] == [None] * 3
    assert playing.temperatures == [1.0] * 6


def test_the_judge_sees_it_with_its_siblings(playing: ByTemperature):
    groups = playing.play()
    assert playing.judge.seen == [[0, 1, GREEDY]] * 3  # type: ignore[union-attr]
    assert [played.greedy.reward for played in groups] == [float(GREEDY)] * 3


def test_it_is_stored_and_neither_played_nor_judged_again(playing: ByTemperature):
    first = playing.play()
    stored = {one.id: one.reward for one in read_episodes(playing.directory, "train")}
    assert {identity: stored[identity] for identity in GREEDY_IDS} == dict.fromkeys(GREEDY_IDS, float(GREEDY))
    asked, seen = len(playing.temperatures), len(playing.judge.seen)  # type: ignore[union-attr]
    again = playing.play(replay=True)
    assert (len(playing.temperatures), len(playing.judge.seen)) == (asked, seen)  # type: ignore[union-attr]
    assert [(played.greedy.id, played.greedy.reward) for played in again] == [
        (played.greedy.id, played.greedy.reward) for played in first
    ]


def test_one_that_fails_is_played_again_as_others_are(playing: ByTemperature):
    from astuner.contract.errors import ServiceUnavailable

    playing.workflow = make_failing(ServiceUnavailable("the sandbox is down"), attempts=1, only=GREEDY)
    playing.options = {"max_retries": 1}
    assert [played.greedy.reward for played in playing.play()] == [float(GREEDY)] * 3


def test_a_group_whose_greedy_sibling_failed_is_counted_and_gives_no_signal(playing: ByTemperature):
    playing.workflow = make_failing(RuntimeError("tool broke"), attempts=9, only=GREEDY)
    groups = playing.play()
    assert [[one.reward for one in played.episodes] for played in groups] == [[0.0, 1.0]] * 3
    rows = compute_advantages(groups, Beyond())
    assert [row.advantage for row in rows] == [0.0] * 6
    metrics = compute_rollout_metrics(groups, rows)
    assert (metrics["greedy/without_reward"], metrics["signal/groups_without_signal"]) == (3.0, 3.0)
    assert "greedy/reward_mean" not in metrics


def test_lost_greedy_siblings_count_in_the_failure_budget(playing: ByTemperature):
    playing.workflow = make_failing(RuntimeError("tool broke"), attempts=9, only=GREEDY)
    playing.options = {"failure_budget": 0.3}
    with pytest.raises(FailureBudgetExceeded, match="3 of 9 episodes of step 1") as ended:
        playing.play()
    assert list(ended.value.lost) == GREEDY_IDS


def test_a_group_whose_greedy_sibling_was_not_judged_gives_no_signal(playing: ByTemperature):
    class Abstains(Judge):
        async def judge(self, group):
            return [Unjudged(reason="abstained") if e.repeat == GREEDY else Verdict(float(e.repeat)) for e in group.episodes]

    playing.judge = Abstains()
    groups = playing.play()
    assert [played.greedy.verdict.reason for played in groups] == ["abstained"] * 3
    assert not any(row.live_tokens for row in compute_advantages(groups, Beyond()))


def test_its_reward_and_tokens_are_counted_apart(playing: ByTemperature):
    groups = playing.play()
    metrics = compute_rollout_metrics(groups, compute_advantages(groups, Beyond()))
    of_siblings = [len(call.output_ids) for played in groups for one in played.episodes for call in one.calls]
    of_greedy = [len(call.output_ids) for played in groups for call in played.greedy.calls]
    assert (metrics["tokens/generated"], metrics["greedy/tokens"]) == (sum(of_siblings), sum(of_greedy))
    assert (metrics["reward/mean"], metrics["greedy/reward_mean"], metrics["greedy/without_reward"]) == (0.5, -1.0, 0.0)
    assert (metrics["signal/episodes"], metrics["signal/groups_without_signal"]) == (6.0, 0.0)


def test_no_metric_speaks_of_it_where_none_was_played():
    groups = [group(episode(0, 1.0), episode(1, 0.0))]
    assert not [name for name in compute_rollout_metrics(groups, []) if name.startswith("greedy/")]


def test_its_samples_are_no_rows_and_it_makes_no_difference_between_siblings():
    played = group(episode(0, 1.0), episode(1, 1.0), episode(GREEDY, 0.25))
    rows = compute_advantages([played], Beyond())
    assert [(row.sample.episode_id, row.advantage) for row in rows] == [("train/1/t/0", 0.75), ("train/1/t/1", 0.75)]
    assert has_no_signal(played)


def test_each_agent_is_compared_with_its_own_reward():
    both = ("a", "b")
    played = group(
        episode(0, 1.0, agents=both, rewards={"a": 1.0, "b": 0.0}),
        episode(GREEDY, 0.5, agents=both, rewards={"a": 0.5, "b": 0.25}),
    )
    assert {row.sample.agent: row.advantage for row in compute_advantages([played], Beyond())} == {"a": 0.5, "b": -0.25}


@pytest.mark.parametrize("places", [(0, 1, GREEDY), (GREEDY, 1, 0)])
def test_a_group_is_made_of_all_that_were_played(places: tuple[int, ...]):
    made = group(*(episode(repeat, np.float64(repeat)) for repeat in places))
    assert made.greedy is not None
    assert (made.greedy.repeat, [one.repeat for one in made.episodes]) == (GREEDY, [n for n in places if n != GREEDY])
    assert made.played == (*made.episodes, made.greedy)
    assert made.with_played(made.episodes).greedy is None
