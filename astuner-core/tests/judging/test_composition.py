"""One reward of several judges: weights, gates, shaping, and each judge's own reward kept."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from astuner.contract.protocols import Judge
from astuner.contract.schema import Group, Unjudged, Verdict
from astuner.episodes.judging.composition import WeightedJudge, combine_judges
from astuner.episodes.judging.failures import collect_observations, collect_verdicts
from astuner.episodes.judging.group_judging import judge_group
from astuner.episodes.rollout.metrics import compute_validation_metrics
from astuner.settings.config.rewards import Overlong, RewardComposition, Shape, order_by_requirements
from astuner_devkit.episodes import episode, group


class Rewarding(Judge):
    """Gives the rewards that it is told, by repeat, and remembers about whom it was asked."""

    def __init__(self, *rewards: float, **more: Any) -> None:
        self.rewards, self.more, self.asked = rewards, more, []

    async def judge(self, group: Group) -> Sequence[Verdict | Unjudged]:
        asked = [one.repeat for one in group.episodes if one.completed]
        self.asked.append(asked)
        return [Verdict(self.rewards[repeat], **self.more) for repeat in asked]


def siblings(count: int) -> Group:
    return group(*(evolve(episode(repeat, None), verdict=None) for repeat in range(count)))


def judged(
    judges: Sequence[WeightedJudge], how: RewardComposition | None = None, count: int = 2, timeout_s: float | None = None
) -> list[Any]:
    judge = combine_judges(judges, how)
    assert judge is not None
    return list(asyncio.run(collect_verdicts(judge, siblings(count), timeout_s)))


def test_a_gate_keeps_an_episode_from_a_judge_and_its_cost() -> None:
    style = Rewarding(0.5, 0.75)
    found = judged(
        [
            WeightedJudge("style", 1.0, style, requires={"right": 1.0}, otherwise=-0.25),
            WeightedJudge("right", 1.0, Rewarding(1.0, 0.0)),
        ]
    )
    assert style.asked == [[0]]
    assert [one.reward for one in found] == [1.5, -0.25]
    assert [one.components for one in found] == [{"right": 1.0, "style": 0.5}, {"right": 0.0, "style": -0.25}]


def test_a_judge_whose_gate_nobody_passes_is_not_asked() -> None:
    style = Rewarding(0.5, 0.5)
    judged([WeightedJudge("right", 1.0, Rewarding(0.0, 0.0)), WeightedJudge("style", 1.0, style, requires={"right": 1.0})])
    assert style.asked == []


def test_a_judge_that_fails_behind_a_gate_leaves_only_its_own_episodes_unjudged() -> None:
    class Failing(Judge):
        async def judge(self, group: Group) -> Sequence[Verdict | Unjudged]:
            return [Unjudged(reason="llm_failed", detail="no answer") for one in group.episodes if one.completed]

    found = judged(
        [WeightedJudge("right", 1.0, Rewarding(1.0, 0.0)), WeightedJudge("llm", 1.0, Failing(), requires={"right": 1.0})]
    )
    assert found[0] == Unjudged(reason="llm_failed", detail="judge 'llm': no answer")
    assert found[1].reward == 0.0


class Odd(Judge):
    """Answers with something that is no finding, or raises."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def judge(self, group: Group) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return [self.answer for one in group.episodes if one.completed]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [("x", "bad_verdict"), (0.7, "bad_verdict"), (KeyError("x"), "judge_error"), (ConnectionError("x"), "judge_unavailable")],
    ids=["text", "float", "raises", "lost"],
)
def test_what_is_no_finding_is_never_a_score_and_names_its_judge(answer: Any, reason: str) -> None:
    judges = [WeightedJudge("right", 1.0, Rewarding(1.0, 0.0)), WeightedJudge("odd", 1.0, Odd(answer), requires={"right": 1.0})]
    first, second = judged(judges)
    assert (first.reason, first.detail.startswith("judge 'odd': ")) == (reason, True)
    assert second.reward == 0.0


def test_a_judge_that_abstains_is_left_out_of_the_reward_of_that_episode() -> None:
    judges = [WeightedJudge("right", 1.0, Rewarding(1.0, 0.5)), WeightedJudge("silent", 3.0, Odd(None))]
    for combine in ("sum", "mean", "product", "min", "max"):
        found = judged(judges, RewardComposition(combine=combine))
        assert [(one.reward, one.components) for one in found] == [(1.0, {"right": 1.0}), (0.5, {"right": 0.5})]


def test_a_judge_behind_the_gate_of_one_that_abstains_is_left_out_too() -> None:
    behind = Rewarding(5.0, 5.0)
    judges = [
        WeightedJudge("right", 1.0, Rewarding(1.0, 0.5)),
        WeightedJudge("silent", 1.0, Odd(None)),
        WeightedJudge("behind", 1.0, behind, requires={"silent": 0.0}, otherwise=-1.0),
    ]
    assert [one.reward for one in judged(judges)] == [1.0, 0.5]
    assert behind.asked == []


def test_an_episode_that_all_judges_abstain_from_is_named() -> None:
    judges = [
        WeightedJudge("one", 1.0, Odd(None)),
        WeightedJudge("two", 1.0, Odd(None)),
        WeightedJudge("noted", 0.0, Rewarding(1.0, 1.0)),
    ]
    found = judged(judges)
    assert {one.reason for one in found} == {"abstained"}
    assert "no judge has an opinion on task 't'" in found[0].detail
    assert "'one'" in found[0].detail


@pytest.mark.parametrize(
    ("only", "asked"),
    [
        ({"kind": "math"}, True),
        ({"kind": "code"}, False),
        ({"kind": ["code", "math"]}, True),
        ({"kind": "math", "level": 2}, False),
        ({"extra.source": "gsm8k"}, True),
        ({"extra.source": ["gsm8k", "math"]}, True),
        ({"extra.none.deeper": None}, True),
        ({"extra.source.deeper": "gsm8k"}, False),
        ({"extra": {"source": "gsm8k"}}, True),
        ({"tags": "easy"}, True),
        ({"tags": ["short", "easy"]}, True),
        ({"tags": ["easy", "sums"]}, True),
        ({"tags": "hard"}, False),
        ({"missing": "x"}, False),
        ({"env_type": "no_env"}, True),
    ],
)
def test_only_routes_a_judge_to_tasks(only: dict[str, Any], asked: bool) -> None:
    task = evolve(siblings(1).task, metadata={"kind": "math", "level": 1, "extra": {"source": "gsm8k"}, "tags": ["easy", "sums"]})
    made = evolve(siblings(1), task=task, episodes=tuple(evolve(one, task=task) for one in siblings(1).episodes))
    routed, other = Rewarding(10.0), Rewarding(1.0)
    judge = combine_judges([WeightedJudge("routed", 1.0, routed, only=only), WeightedJudge("other", 1.0, other)])
    (found,) = asyncio.run(collect_verdicts(judge, made, None))
    assert (found.reward, bool(routed.asked)) == ((11.0, True) if asked else (1.0, False))
    assert ("routed" in found.components) == asked


def test_a_judge_that_was_for_no_task_is_named_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    judges = [WeightedJudge("typo", 1.0, Rewarding(1.0), only={"knd": "math"}), WeightedJudge("all", 1.0, Rewarding(1.0))]
    judge = combine_judges(judges)
    asyncio.run(collect_verdicts(judge, siblings(1), None))
    asyncio.run(judge.close())
    assert [record.getMessage() for record in caplog.records] == [
        "judge 'typo' judged nothing: no task has knd (task_judge.judges[].only)"
    ]


def test_a_task_that_no_judge_is_for_is_named_and_says_nothing_about_the_answer() -> None:
    (found,) = judged([WeightedJudge("code", 1.0, Rewarding(1.0), only={"kind": "code"})], count=1)
    assert (found.reason, found.by_answer) == ("no_judge_for_task", False)
    assert "task 't'" in found.detail


def test_what_the_answer_caused_counts_before_what_a_service_did() -> None:
    judges = [WeightedJudge("asks", 1.0, Odd(ConnectionError("x"))), WeightedJudge("own", 1.0, Odd(KeyError("x")))]
    (found,) = judged(judges, count=1)
    assert found.reason == "judge_error"


def test_a_judge_that_only_records_takes_no_reward_away() -> None:
    judges = [WeightedJudge("right", 1.0, Rewarding(1.0)), WeightedJudge("noted", 0.0, Odd(KeyError("x")))]
    (found,) = judged(judges, count=1)
    assert (found.reward, found.components) == (1.0, {"right": 1.0})


class Hanging(Judge):
    async def judge(self, group: Group) -> Sequence[Verdict | Unjudged]:
        await asyncio.sleep(600)
        return []


def test_a_judge_that_hangs_is_named_and_takes_no_time_from_the_next_round() -> None:
    right, noted = WeightedJudge("right", 1.0, Rewarding(1.0, 0.0)), WeightedJudge("noted", 0.0, Hanging())
    style = WeightedJudge("style", 1.0, Rewarding(0.5, 0.5), requires={"right": 1.0})
    found = judged([right, noted, style], timeout_s=2.0)
    assert [(one.reward, one.components) for one in found] == [
        (1.5, {"right": 1.0, "style": 0.5}),
        (0.0, {"right": 0.0, "style": 0.0}),
    ]
    (lost,) = judged([evolve(noted, weight=1.0)], RewardComposition(shape=Shape(scale=2.0)), count=1, timeout_s=0.3)
    assert isinstance(lost, Unjudged)
    assert lost.reason == "judge_timeout"
    assert re.match(r"judge 'noted': no answer within 0.3 s; it was at \S*test_composition.py:\d+ in ", lost.detail)


class Looking(Rewarding):
    """Sees what it is told, raises it, or goes on looking."""

    def __init__(self, sees: Any, *rewards: float) -> None:
        super().__init__(*rewards)
        self.sees, self.seen = sees, []

    async def observe(self, episode: Any, environment: Any) -> Any:
        if self.sees is None:
            await asyncio.sleep(600)
        if isinstance(self.sees, Exception):
            raise self.sees
        return self.sees

    async def judge(self, group: Group) -> Sequence[Verdict | Unjudged]:
        self.seen += [one.observations for one in group.episodes]
        return await super().judge(group)


@pytest.mark.parametrize(
    ("sees", "said"), [(KeyError("door"), "observe: KeyError: 'door'"), (None, "observe: no answer within 0.3 s")]
)
@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_a_judge_that_could_not_look_is_not_asked_and_the_others_are(sees: Any, said: str, weight: float) -> None:
    blind, right = Looking(sees, 0.25), Looking({"door": "open"}, 1.0)
    judge = combine_judges([WeightedJudge("blind", weight, blind), WeightedJudge("right", 1.0, right)])
    assert judge is not None

    async def whole() -> Any:
        one = evolve(episode(0, None), verdict=None)
        seen = await collect_observations(judge, one, None, 0.3)
        assert not isinstance(seen, Unjudged)
        return (await collect_verdicts(judge, group(evolve(one, observations=json.loads(json.dumps(seen)))), 5.0))[0]

    found = asyncio.run(whole())
    assert (blind.asked, right.seen) == ([], [{"door": "open"}])
    assert (
        (found.reward, found.components) == (1.0, {"right": 1.0})
        if weight == 0
        else found.detail.startswith(f"judge 'blind': {said}")
    )


def test_every_judge_is_closed_also_where_one_cannot_be() -> None:
    class Closing(Rewarding):
        closed = False

        async def close(self) -> None:
            self.closed = True

    class Stuck(Rewarding):
        async def close(self) -> None:
            raise OSError("stuck")

    last = Closing()
    judge = combine_judges([WeightedJudge("a", 1.0, Stuck()), WeightedJudge("b", 1.0, last)])
    assert judge is not None
    with pytest.raises(OSError, match="stuck"):
        asyncio.run(judge.close())
    assert last.closed


@pytest.mark.parametrize(
    ("combine_by", "expected"),
    [("sum", 2 * 0.5 + 0.25), ("mean", (2 * 0.5 + 0.25) / 3), ("product", 0.125), ("min", 0.25), ("max", 0.5)],
)
def test_rewards_are_combined_as_asked_and_weight_0_only_records(combine_by: Any, expected: float) -> None:
    judges = [
        WeightedJudge("a", 2.0, Rewarding(0.5)),
        WeightedJudge("b", 1.0, Rewarding(0.25)),
        WeightedJudge("noted", 0.0, Rewarding(9.0)),
    ]
    (found,) = judged(judges, RewardComposition(combine=combine_by), count=1)
    assert found.reward == pytest.approx(expected)
    assert found.components == {"a": 0.5, "b": 0.25, "noted": 9.0}


def test_what_a_judge_gave_is_logged_and_its_shape_counts() -> None:
    judges = [WeightedJudge("llm", 1.0, Rewarding(8.0), shape=Shape(scale=0.1, offset=-0.5, high=0.25))]
    (found,) = judged(judges, RewardComposition(shape=Shape(low=0.0, scale=2.0)), count=1)
    assert (found.reward, found.components) == (0.5, {"llm": 8.0})


def test_shaping_holds_for_the_rewards_of_agents_too() -> None:
    judges = [WeightedJudge("a", 1.0, Rewarding(0.5, rewards={"planner": 1.0}), shape=Shape(scale=-1.0))]
    (found,) = judged(judges, RewardComposition(overlong=Overlong(from_tokens=0, over_tokens=1)), count=1)
    assert (found.reward, dict(found.rewards)) == (-1.5, {"planner": -2.0})


@pytest.mark.parametrize(("tokens", "added"), [(0, 0.0), (10, 0.0), (15, -0.25), (20, -0.5), (99, -0.5)])
def test_the_penalty_for_length_grows_between_its_ends(tokens: int, added: float) -> None:
    assert Overlong(from_tokens=10, over_tokens=10, penalty=0.5)(tokens) == added


def test_the_penalty_counts_what_was_sampled_in_all_calls() -> None:
    long = siblings(1).episodes[0]
    calls = tuple(evolve(call, output_ids=np.arange(6, dtype=np.int32)) for call in (*long.calls, *long.calls))
    judge = combine_judges(
        [WeightedJudge("a", 1.0, Rewarding(1.0))], RewardComposition(overlong=Overlong(from_tokens=2, over_tokens=10))
    )
    (found,) = asyncio.run(judge.judge(group(evolve(long, calls=calls[:2]))))  # type: ignore[union-attr]  # there is a judge
    assert found.components["overlong"] == pytest.approx(-1.0)  # type: ignore[union-attr]  # it was judged


def test_the_penalty_counts_nothing_that_a_frozen_agent_said() -> None:
    episode = siblings(1).episodes[0]
    said = evolve(episode.calls[0], output_ids=np.arange(6, dtype=np.int32))
    calls = (said, evolve(said, index=1, agent="judge", untrained="frozen_agent"))
    judge = combine_judges(
        [WeightedJudge("a", 1.0, Rewarding(1.0))], RewardComposition(overlong=Overlong(from_tokens=2, over_tokens=10))
    )
    (found,) = asyncio.run(judge.judge(group(evolve(episode, calls=calls))))  # type: ignore[union-attr]  # there is a judge
    assert found.components["overlong"] == pytest.approx(-0.4)  # type: ignore[union-attr]  # it was judged


@pytest.mark.parametrize(("success", "expected"), [("all", False), ("any", True), (None, None)])
def test_success_is_that_of_all_or_of_any(success: Any, expected: bool | None) -> None:
    judges = [
        WeightedJudge("a", 1.0, Rewarding(1.0, is_success=True)),
        WeightedJudge("b", 1.0, Rewarding(1.0, is_success=False)),
        WeightedJudge("c", 1.0, Rewarding(1.0)),
    ]
    (found,) = judged(judges, RewardComposition(success=success), count=1)
    assert found.is_success is expected


@pytest.mark.parametrize("requires", [{"a": {"b": 1.0}, "b": {"a": 1.0}}, {"a": {"a": 1.0}}, {"a": {"gone": 0.0}}])
def test_gates_that_no_order_satisfies_are_named(requires: dict[str, dict[str, float]]) -> None:
    with pytest.raises(ValueError, match="'a' requires"):
        order_by_requirements(requires)


@given(st.permutations(["a", "b", "c", "d"]))
def test_every_judge_comes_after_what_it_requires(names: list[str]) -> None:
    requires = {name: dict.fromkeys("abcd"["abcd".index(name) + 1 :], 1.0) for name in names}
    assert order_by_requirements(requires) == [["d"], ["c"], ["b"], ["a"]]


class Deciding(Rewarding):
    """Decides success too: a reward of 1."""

    async def judge(self, group: Group) -> Sequence[Verdict | Unjudged]:
        given = await super().judge(group)
        return [evolve(one, is_success=one.reward == 1.0) for one in given if isinstance(one, Verdict)]


def play_behind_gate(judge: Judge, *formats: float) -> dict[str, float]:
    judges = [WeightedJudge("format", 0.0, Rewarding(*formats)), WeightedJudge("right", 1.0, judge, requires={"format": 1.0})]
    combined = combine_judges(judges)
    return compute_validation_metrics([asyncio.run(judge_group(siblings(8), combined, timeout_s=None))])


def test_an_episode_that_does_not_pass_a_gate_is_no_success() -> None:
    found = play_behind_gate(Deciding(1.0, *[0.0] * 7), 1.0, 1.0, *[0.0] * 6)
    assert (found["val/success/rate"], found["val/pass@1"], found["val/reward/right"]) == (0.125, 0.125, 0.125)


def test_a_gate_alone_decides_no_success() -> None:
    found = play_behind_gate(Rewarding(*[1.0] * 8), 1.0, *[0.0] * 7)
    assert not [name for name in found if "success" in name or "pass@" in name]


def test_a_task_in_which_nobody_passes_the_gate_is_in_the_mean() -> None:
    def judge_siblings(*formats: float) -> Group:
        judges = [
            WeightedJudge("format", 0.0, Rewarding(*formats)),
            WeightedJudge("right", 1.0, Deciding(1.0, 0.0), requires={"format": 1.0}),
        ]
        return asyncio.run(judge_group(siblings(2), combine_judges(judges), timeout_s=None))

    found = compute_validation_metrics([judge_siblings(1.0, 0.0), judge_siblings(0.0, 0.0)])
    assert (found["val/success/rate"], found["val/pass@1"], found["val/pass@2"]) == (0.25, 0.25, 0.5)
