"""One episode with several agents: whose calls are trained, who is rewarded for what, and who is compared with whom."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from astuner.contract.protocols import Judge, Workflow
from astuner.contract.schema import Unjudged, Verdict, WorkflowOutput
from astuner.contract.token_streams import stream_ids
from astuner.episodes.judging.advantages import compute_advantages, has_no_signal
from astuner.episodes.judging.composition import WeightedJudge, combine_judges
from astuner.episodes.judging.estimators import DrGrpo, ReinforcePlusPlus
from astuner.episodes.judging.group_judging import judge_group
from astuner.episodes.rollout.metrics import compute_rollout_metrics, compute_validation_metrics
from astuner_devkit.episodes import episode, group


class Team(Workflow):
    """A planner and two solvers at once, over two turns each, and a critic that starts anew for each of its questions."""

    async def execute(self, workflow_task, tuner):
        clients = {
            "planner": tuner.as_raw_openai_sdk_client("planner", "core"),
            "solver": tuner.as_raw_openai_sdk_client("solver", "core"),
            "helper": tuner.as_raw_openai_sdk_client("helper", "core"),
            "critic": tuner.as_raw_openai_sdk_client("critic", "reviews"),
        }
        mark = f"sibling {workflow_task.repeat}"

        async def ask(agent: str, messages: list[Any]) -> None:
            answer = await clients[agent].chat.completions.create(model="m", messages=messages)
            messages.append({"role": "assistant", "content": answer.choices[0].message.content})

        async def talk(agent: str) -> None:
            # The same words for each: what tells them apart is who asks.
            messages: list[Any] = [{"role": "user", "content": mark}]
            for turn in range(2):
                await ask(agent, messages)
                messages.append({"role": "user", "content": f"turn {turn}"})

        async def review() -> None:
            for question in range(2):
                await ask("critic", [{"role": "user", "content": f"{mark}: question {question}"}])

        await asyncio.gather(talk("planner"), talk("solver"), talk("helper"), review())
        won = float(workflow_task.repeat)
        return WorkflowOutput(reward={"planner": won, "solver": 1.0 - won, "*": 0.25})


def answer(prompt: str, request: Any) -> str:
    return f"{request.session.split('/')[-1].partition('#')[0]} says {prompt.count('turn')}"


@pytest.fixture
def played(stage):
    return stage(Team, answer, trainable_targets=("core",)).play(2)


def test_every_agent_is_a_timeline_of_its_own_and_the_frozen_one_is_none(played):
    for one in played.episodes:
        assert Counter(sample.agent for sample in one.samples) == {"planner": 1, "solver": 1, "helper": 1}
        assert {call.agent: call.untrained for call in one.calls} == {
            "planner": None,
            "solver": None,
            "helper": None,
            "critic": "frozen_agent",
        }


def test_each_sampled_token_is_trained_once_or_counted(played):
    for one in played.episodes:
        by_agent = Counter({call.agent: 0 for call in one.calls})
        for call in one.calls:
            by_agent[call.agent] += len(call.output_ids)
        assert one.untrained == {"frozen_agent": by_agent.pop("critic")}
        assert {sample.agent: sample.trained for sample in one.samples} == by_agent


def test_a_sample_is_what_its_own_agent_saw_and_said(played, renderer):
    for one in played.episodes:
        for sample in one.samples:
            last = sample.calls[-1]
            assert sample.ids.tolist() == stream_ids(one.calls, last)[: len(sample.ids)].tolist()
            said = renderer.decode(sample.ids[sample.mask].tolist())
            assert said == f"{sample.agent} says 0<|im_end|>{sample.agent} says 1<|im_end|>"
            assert {one.calls[index].agent for index in sample.calls} == {sample.agent}


def test_siblings_are_kept_apart(played, renderer):
    for one in played.episodes:
        other = f"sibling {1 - one.repeat}"
        assert not [sample for sample in one.samples if other in renderer.decode(sample.ids.tolist())]
        assert {(sample.episode_id, sample.repeat) for sample in one.samples} == {(one.id, one.repeat)}


def test_conversations_that_begin_with_the_same_words_share_no_stream(played):
    for one in played.episodes:
        roots = [call for call in one.calls if call.parent is None]
        assert Counter(call.agent for call in roots) == {"planner": 1, "solver": 1, "helper": 1, "critic": 2}


def test_calls_of_agents_that_work_at_once_are_interleaved(played):
    assert {call.agent for call in played.episodes[0].calls[:4]} == {"planner", "solver", "helper", "critic"}


def test_each_agent_is_compared_with_itself_among_the_siblings(played):
    found = {(row.sample.repeat, row.sample.agent): row.advantage for row in compute_advantages([played], DrGrpo())}
    assert found == {
        (0, "planner"): -0.5,
        (0, "solver"): 0.5,
        (0, "helper"): 0.0,
        (1, "planner"): 0.5,
        (1, "solver"): -0.5,
        (1, "helper"): 0.0,
    }


def test_each_trained_agent_has_a_mean_reward_of_its_own(played):
    found = compute_rollout_metrics([played], [])
    assert {name: value for name, value in found.items() if name.startswith("reward/")} == {
        "reward/mean": 0.25,
        "reward/std": 0.0,
        "reward/count": 2.0,
        "reward/planner/mean": 0.5,
        "reward/solver/mean": 0.5,
        "reward/helper/mean": 0.25,
    }
    assert compute_validation_metrics([played])["val/reward/solver/mean"] == 0.5


def test_a_single_agent_has_no_mean_beside_that_of_the_episode():
    assert "reward/agent/mean" not in compute_rollout_metrics([group(episode(0), episode(1))], [])


def test_a_debug_model_stands_for_the_agents_that_are_not_trained(stage):
    stand_in = object()
    found = []

    class Asks(Workflow):
        async def execute(self, workflow_task, tuner):
            found.append(tuner.as_agentscope_model("critic", target_tag="reviews", debug_model=stand_in))
            return WorkflowOutput(reward=0.0)

    stage(Asks, answer, trainable_targets=("core",)).play()
    assert found == [stand_in]


def test_a_reward_for_an_agent_that_made_no_call_is_told(stage):
    class Misnamed(Team):
        async def execute(self, workflow_task, tuner):
            await super().execute(workflow_task, tuner)
            return WorkflowOutput(reward={"planer": 1.0, "solver": 0.0})

    team = stage(Misnamed, answer)
    team.play(1)
    (told,) = team.told
    said, _, names = told.partition(": ")
    assert said == "the reward of the agent 'planer' had no effect in an episode in which these made calls"
    # In the order of their first calls, which they make at once.
    assert set(names.split(", ")) == {"'planner'", "'solver'", "'helper'", "'critic'"}


class PerAgent(Judge):
    """Gives the same verdict to all."""

    def __init__(self, verdict: Verdict | Unjudged) -> None:
        self.verdict = verdict

    async def judge(self, group):
        return [self.verdict for one in group.episodes if one.completed]


def judged(output: WorkflowOutput | None = None, judge: Judge | None = None) -> Any:
    one = evolve(episode(0, agents=("planner", "solver")), output=output or WorkflowOutput(), verdict=None)
    return asyncio.run(judge_group(group(one), judge, timeout_s=5)).episodes[0]


@pytest.mark.parametrize(
    ("reward", "shared", "planner", "solver"),
    [
        (0.5, 0.5, 0.5, 0.5),
        ({"planner": 1.0, "solver": 0.0}, 0.5, 1.0, 0.0),
        ({"planner": 1.0}, 1.0, 1.0, 1.0),
        ({"planner": 1.0, "*": 0.0}, 0.0, 1.0, 0.0),
        ({"*": 0.25}, 0.25, 0.25, 0.25),
        ({"planner": np.float32(0.5), "solver": True}, 0.75, 0.5, 1.0),
    ],
)
def test_a_workflows_reward_is_shared_or_per_agent(reward, shared, planner, solver):
    found = judged(WorkflowOutput(reward=reward))
    assert (found.reward, found.reward_of("planner"), found.reward_of("solver")) == (shared, planner, solver)
    assert "*" not in (found.verdict.rewards or {})


@pytest.mark.parametrize("reward", [{}, {"planner": float("nan")}, {"planner": "1"}, {"planner": None}, {"*": float("inf")}])
def test_a_mapping_with_something_else_than_numbers_is_no_reward(reward):
    assert judged(WorkflowOutput(reward=reward)).verdict.reason == "bad_reward"


def test_rewards_per_agent_of_a_judge_are_kept():
    found = judged(judge=PerAgent(Verdict(0.5, rewards={"planner": 1.0})))
    assert (found.reward, found.reward_of("planner"), found.reward_of("solver")) == (0.5, 1.0, 0.5)


def test_several_judges_are_added_up_per_agent():
    judges = [
        WeightedJudge("a", 2.0, PerAgent(Verdict(0.5, rewards={"planner": 1.0, "solver": 0.0}))),
        WeightedJudge("b", 1.0, PerAgent(Verdict(0.25))),
        WeightedJudge("c", 0.5, PerAgent(Verdict(0.0, rewards={"solver": 4.0}))),
    ]
    found = judged(judge=combine_judges(judges))
    assert (found.reward, found.reward_of("planner"), found.reward_of("solver")) == (1.25, 2.25, 2.25)


def test_judges_without_rewards_per_agent_make_none():
    judges = [WeightedJudge(name, 1.0, PerAgent(Verdict(0.25))) for name in "ab"]
    assert judged(judge=combine_judges(judges)).verdict.rewards is None


def two_agents(repeat: int, a: float, b: float, rows: int = 1) -> Any:
    return episode(repeat, (a + b) / 2, agents=("a", "b"), rewards={"a": a, "b": b}, rows=rows)


def advantages(*episodes: Any, **more: Any) -> dict[tuple[int, str], float]:
    return {
        (int(row.sample.episode_id[-1]), row.sample.agent): row.advantage
        for row in compute_advantages([group(*episodes)], **more)
    }


def test_agents_may_be_compared_with_all_agents_of_the_siblings():
    found = advantages(two_agents(0, 0.0, 1.0), two_agents(1, 2.0, 3.0), estimator=DrGrpo(), by_agent=False)
    assert found == {(0, "a"): -1.5, (0, "b"): -0.5, (1, "a"): 0.5, (1, "b"): 1.5}


def test_compared_together_rows_do_not_count_either():
    once = advantages(two_agents(0, 0.0, 1.0), two_agents(1, 2.0, 3.0), estimator=DrGrpo(), by_agent=False)
    split = advantages(two_agents(0, 0.0, 1.0, rows=3), two_agents(1, 2.0, 3.0), estimator=DrGrpo(), by_agent=False)
    assert split == once


def test_compared_together_penalties_are_each_agents_own():
    penalties = {("train/1/t/0", "b"): np.array([0.5, 0.0, 0.5])}
    found = advantages(two_agents(0, 1.0, 0.0), estimator=DrGrpo(), by_agent=False, penalties=penalties)
    assert found == {(0, "a"): 1.0, (0, "b"): -1.0}


def test_one_agent_is_compared_alike_either_way():
    episodes = [episode(i, reward) for i, reward in enumerate((0.0, 1.0, 0.5))]
    assert advantages(*episodes, estimator=DrGrpo()) == advantages(*episodes, estimator=DrGrpo(), by_agent=False)


def test_an_estimator_over_the_whole_step_sees_every_agent_once():
    groups = [group(two_agents(0, 0.0, 1.0), two_agents(1, 2.0, 3.0))]
    both = [
        [row.advantage for row in compute_advantages(groups, ReinforcePlusPlus(), by_agent=by_agent)]
        for by_agent in (True, False)
    ]
    assert both[0] == pytest.approx(both[1])


def test_an_agent_that_only_some_siblings_have_is_compared_among_these():
    alone = episode(0, 1.0, agents=("a",))
    found = advantages(alone, two_agents(1, 3.0, 5.0), two_agents(2, 5.0, 9.0), estimator=DrGrpo())
    assert found == {(0, "a"): -2.0, (1, "a"): 0.0, (2, "a"): 2.0, (1, "b"): -2.0, (2, "b"): 2.0}


@pytest.mark.parametrize(
    ("rewards", "per_agent", "together"),
    [
        (((1.0, 1.0), (1.0, 1.0)), True, True),
        (((1.0, 0.0), (1.0, 0.0)), True, False),
        (((1.0, 0.0), (0.0, 1.0)), False, False),
        (((1.0, 0.0), (1.0, 1.0)), False, False),
    ],
)
def test_signal_is_a_difference_among_those_that_are_compared(rewards, per_agent, together):
    one = group(*(two_agents(repeat, *pair) for repeat, pair in enumerate(rewards)))
    assert (has_no_signal(one), has_no_signal(one, by_agent=False)) == (per_agent, together)


def test_a_difference_of_agents_that_are_not_trained_is_no_signal():
    episodes = [episode(i, 1.0, agents=("a",), rewards={"a": 1.0, "frozen": float(i)}) for i in range(2)]
    assert has_no_signal(group(*episodes))
    groups = [group(*episodes)]
    assert compute_rollout_metrics(groups, compute_advantages(groups, DrGrpo()))["signal/groups_without_signal"] == 1


def test_groups_without_signal_are_counted_as_they_are_compared():
    groups = [group(two_agents(0, 1.0, 0.0), two_agents(1, 1.0, 0.0))]
    rows = [compute_advantages(groups, DrGrpo(), by_agent=by_agent) for by_agent in (True, False)]
    assert [compute_rollout_metrics(groups, own)["signal/groups_without_signal"] for own in rows] == [1, 0]


@pytest.mark.parametrize(("by_agent", "without"), [(True, 1.0), (False, 0.0)])
def test_the_configuration_says_who_is_compared(run, tmp_path, by_agent, without):
    (tmp_path / "pair.py").write_text(PAIR)
    settings = {"trainer_common": {"algorithm": {"norm_adv_by_agent": by_agent}}}
    played = run(workflow="./pair.py:Pair", settings=settings)
    assert played.metrics["signal/groups_without_signal"] == without


PAIR = """\
from astuner import Workflow, WorkflowOutput

class Pair(Workflow):
    async def execute(self, workflow_task, tuner):
        for agent in ("a", "b"):
            client = tuner.as_raw_openai_sdk_client(agent)
            await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "2 + 2?"}])
        return WorkflowOutput(reward={"a": 0.0, "b": 1.0})
"""
