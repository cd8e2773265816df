"""The episode runner over a real gateway and a scripted engine."""

from __future__ import annotations

import asyncio
import json
import math
import re
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
from scripted_rounds import Ask, Playing, Whole, make_failing

from astuner.contract.errors import FailureBudgetExceeded, RunFailed, ServiceUnavailable
from astuner.contract.protocols import Judge, Workflow
from astuner.contract.schema import Unjudged, Verdict, WorkflowOutput
from astuner.episodes.rollout.metrics import compute_rollout_metrics
from astuner.runs.store.episode_store import read_episodes
from astuner.settings.config.rollout import FailureRewards, MultiTurn


@pytest.fixture
def playing(tmp_path: Path) -> Playing:
    return Playing(tmp_path)


def test_groups_come_in_the_order_of_tasks_and_repeats(playing: Playing):
    groups = playing.play(repeats=3)
    assert [[e.id for e in group.episodes] for group in groups] == [[f"train/1/t{i}/{r}" for r in range(3)] for i in range(3)]


def test_the_judge_sees_all_siblings_of_a_group_at_once(playing: Playing):
    playing.play(repeats=3)
    assert playing.judge.seen == [[0, 1, 2]] * 3


def test_a_failed_sibling_is_kept_in_the_group_with_its_reason(playing: Playing):
    playing.workflow = make_failing(RuntimeError("tool broke"), attempts=9, only=1)
    (group, *_) = playing.play(repeats=3)
    failed = group.episodes[1]
    assert (failed.completed, failed.reward) == (False, None)
    assert failed.failures[-1].reason == "workflow_error"
    assert re.search(r"RuntimeError: tool broke \(\S*scripted_rounds.py:", failed.failures[-1].detail)
    assert [e.reward for e in group.episodes] == [0.0, None, 2.0]


def test_an_episode_is_tried_again_as_often_as_allowed(playing: Playing):
    playing.workflow = make_failing(ServiceUnavailable("flaky"), attempts=2)
    playing.options = {"max_retries": 2}
    (group, *_) = playing.play(repeats=1)
    assert group.episodes[0].completed
    assert [(f.attempt, f.retried) for f in group.episodes[0].failures] == [(0, True), (1, True)]


def test_a_failure_that_the_model_can_cause_is_final(playing: Playing):
    playing.workflow = make_failing(ValueError("bad JSON"), attempts=1)
    playing.options = {"max_retries": 2}
    episode = playing.play(repeats=1)[0].episodes[0]
    assert not episode.completed
    assert [(f.reason, f.retried) for f in episode.failures] == [("workflow_error", False)]


class AsksThenFails(Ask):
    """Loses a connection in its first attempt."""

    async def execute(self, workflow_task, tuner):
        output = await super().execute(workflow_task, tuner)
        if workflow_task.attempt == 0:
            raise ConnectionResetError("the search API")
        return output


def test_an_episode_that_is_played_again_has_the_same_random_numbers(playing: Playing):
    seeds: dict[str, list[int]] = {}

    def remember(prompt: str, request: Any) -> str:
        seeds.setdefault(request.id.split("#")[0], []).append(request.sampling.seed)
        return "four"

    playing.says = remember  # type: ignore[method-assign]
    playing.workflow = AsksThenFails
    playing.options = {"max_retries": 2}
    playing.play()
    assert [len(attempts) for attempts in seeds.values()] == [2] * 6
    assert all(first == second for first, second in seeds.values())
    assert len({first for first, _ in seeds.values()}) == 6


def test_each_attempt_keeps_count_of_its_calls_and_tokens(playing: Playing):
    playing.workflow = AsksThenFails
    playing.options = {"max_retries": 2}
    episode = playing.play(repeats=1)[0].episodes[0]
    sampled = len(episode.calls[0].output_ids)
    assert [(f.reason, f.retried, f.calls, f.tokens) for f in episode.failures] == [("connection_lost", True, 1, sampled)]


def test_an_engine_that_fails_is_not_an_error_of_the_workflow(playing: Playing):
    def breaks_once(prompt: str, request: Any) -> str:
        playing.prompts.append(prompt)
        if len(playing.prompts) == 1:
            raise RuntimeError("CUDA error")
        return "four"

    playing.says = breaks_once  # type: ignore[method-assign]
    playing.options = {"max_retries": 1, "max_env_worker": 1}
    episode = playing.play(repeats=1)[0].episodes[0]
    assert (episode.completed, [f.reason for f in episode.failures]) == (True, ["engine_lost"])


class AsksTwice(Ask):
    """Ends with a second call, which is one more than the limit."""

    async def execute(self, workflow_task, tuner):
        output = await super().execute(workflow_task, tuner)
        return output if workflow_task.repeat else await super().execute(workflow_task, tuner)


def test_a_failure_with_a_reward_is_trained_and_no_judge_sees_it(playing: Playing):
    playing.workflow = AsksTwice
    playing.options = {"multi_turn": MultiTurn(max_steps=1), "failure_rewards": FailureRewards(max_steps=-0.5)}
    group = playing.play(repeats=3)[0]
    stopped = group.episodes[0]
    assert (stopped.completed, stopped.failures[-1].reason, stopped.untrained) == (False, "max_steps", {})
    assert [sample.trained for sample in stopped.samples] == [len(stopped.calls[0].output_ids)]
    assert [episode.reward for episode in group.episodes] == [-0.5, 1.0, 2.0]
    assert playing.judge.seen == [[1, 2]] * 3  # type: ignore[union-attr]  # a `Whole`


def test_a_failure_worth_more_than_a_wrong_answer_gives_one_notice(playing: Playing):
    class Strict(Whole):
        async def judge(self, group):
            return [Verdict(-1.0) for episode in group.episodes if episode.completed]

    playing.workflow, playing.judge = AsksTwice, Strict()
    playing.options = {"multi_turn": MultiTurn(max_steps=1)}
    playing.play()
    assert [text.split(":")[0] for text in playing.told if "failure_rewards" in text] == ["rollout.failure_rewards.max_steps"]


def test_a_failure_without_a_reward_is_counted_and_left_out(playing: Playing):
    playing.workflow = AsksTwice
    playing.options = {"multi_turn": MultiTurn(max_steps=1), "failure_rewards": FailureRewards(max_steps=None)}
    stopped = playing.play(repeats=2)[0].episodes[0]
    assert (stopped.reward, stopped.samples) == (None, ())
    assert stopped.untrained == {"failed": len(stopped.calls[0].output_ids)}


def test_a_workflow_that_ends_at_the_limit_with_an_output_is_complete(playing: Playing):
    class Catches(AsksTwice):
        async def execute(self, workflow_task, tuner):
            try:
                return await super().execute(workflow_task, tuner)
            except openai.PermissionDeniedError:
                return WorkflowOutput(metadata={"final_answer": "the best so far"})

    playing.workflow = Catches
    playing.options = {"multi_turn": MultiTurn(max_steps=1)}
    assert [episode.completed for episode in playing.play()[0].episodes] == [True, True]


def test_a_failure_with_a_reward_is_replayed_as_it_was(playing: Playing):
    playing.workflow = AsksTwice
    playing.options = {"multi_turn": MultiTurn(max_steps=1)}
    before = playing.play()
    prompts = len(playing.prompts)
    again = playing.play(replay=True)
    assert len(playing.prompts) == prompts
    assert [[e.verdict for e in g.episodes] for g in again] == [[e.verdict for e in g.episodes] for g in before]
    assert [g.episodes[0].failures for g in again] == [g.episodes[0].failures for g in before]


def test_only_calls_of_trained_agents_count_against_their_limits(playing: Playing):
    class Team(Workflow):
        trainable_targets = ("player",)

        async def execute(self, workflow_task, tuner):
            for agent, target in (("one", "player"), ("two", "player"), *[("host", "frozen")] * 5):
                client = tuner.as_raw_openai_sdk_client(agent, target)
                await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "word " * 30}])
            return WorkflowOutput(reward=1.0)

    playing.workflow, playing.targets = Team, ("player",)
    playing.options = {"multi_turn": MultiTurn(max_steps=1)}
    episode = playing.play(repeats=1)[0].episodes[0]
    assert [call.agent for call in episode.calls] == ["one", "two", *["host"] * 5]
    assert episode.completed


def test_a_metric_that_is_not_a_number_is_left_out_with_a_notice(playing: Playing):
    class Reports(Workflow):
        async def execute(self, workflow_task, tuner):
            return WorkflowOutput(reward=1.0, log_metrics={"side": "werewolf", "rounds": 3})

    playing.workflow = Reports
    groups = playing.play()
    assert {tuple(e.output.log_metrics.items()) for g in groups for e in g.episodes} == {(("rounds", 3.0),)}
    [notice] = playing.told
    assert notice.startswith("WorkflowOutput.log_metrics['side'] must be a finite number and was str in 6 episodes")
    assert compute_rollout_metrics(groups, [])["workflow/rounds"] == 3


def test_a_hanging_episode_ends_with_its_time_limit_and_the_others_go_on(playing: Playing):
    class Hangs(Ask):
        async def execute(self, workflow_task, tuner):
            if workflow_task.repeat == 0:
                await asyncio.sleep(60)
            return await super().execute(workflow_task, tuner)

    playing.workflow = Hangs
    playing.options = {"episode_timeout_s": 5.0}
    groups = playing.play()
    assert [[e.completed for e in g.episodes] for g in groups] == [[False, True]] * 3
    assert groups[0].episodes[0].failures[-1].reason == "timeout"


def test_a_time_out_of_the_workflow_itself_is_an_error_of_the_workflow(playing: Playing):
    playing.workflow = make_failing(TimeoutError("my own"), attempts=9)
    assert playing.play(repeats=1)[0].episodes[0].failures[-1].reason == "workflow_error"


def test_a_full_context_is_an_outcome_of_its_own(playing: Playing):
    playing.options = {"max_model_len": 8}
    assert playing.play(repeats=1)[0].episodes[0].failures[-1].reason == "context_full"


def test_something_else_than_an_output_is_an_error_of_the_workflow(playing: Playing):
    class ReturnsText(Workflow):
        async def execute(self, workflow_task, tuner):
            return "four"

    playing.workflow = ReturnsText
    assert "must return a WorkflowOutput" in playing.play(repeats=1)[0].episodes[0].failures[-1].detail


def test_too_many_failures_end_the_run_with_the_reasons_counted(playing: Playing):
    playing.workflow = make_failing(RuntimeError("tool broke"), attempts=9)
    playing.options = {"failure_budget": 0.5}
    with pytest.raises(
        RunFailed, match=r"6 of 6 episodes of step 1 \(train\)[\s\S]*6 x workflow_error: RuntimeError: tool broke"
    ):
        playing.play()


def test_the_end_by_failures_names_what_a_resumed_run_plays_and_judges_again(playing: Playing):
    playing.workflow = make_failing(RuntimeError("tool broke"), attempts=9, only=1)
    playing.options = {"failure_budget": 0.4}
    with pytest.raises(FailureBudgetExceeded, match=r"continue with --resume") as ended:
        playing.play()
    assert ended.value.lost == ("train/1/t0/1", "train/1/t1/1", "train/1/t2/1")
    assert ended.value.rejudged == tuple(f"train/1/t{task}/{repeat}" for task in range(3) for repeat in range(2))


def test_an_episode_that_only_the_judge_failed_is_not_lost(playing: Playing):
    class Breaks(Judge):
        async def judge(self, group):
            raise OSError("the API is down")

    playing.judge = Breaks()
    playing.options = {"failure_budget": 0.5}
    with pytest.raises(FailureBudgetExceeded) as ended:
        playing.play(repeats=1)
    assert (ended.value.lost, len(ended.value.rejudged)) == ((), 3)


def test_finished_episodes_are_neither_generated_nor_judged_again(playing: Playing):
    first = playing.play()
    asked, seen = len(playing.prompts), len(playing.judge.seen)
    again = playing.play(replay=True)
    assert (len(playing.prompts), len(playing.judge.seen)) == (asked, seen)
    assert [[(e.id, e.reward) for e in g.episodes] for g in again] == [[(e.id, e.reward) for e in g.episodes] for g in first]
    assert again[0].episodes[0].samples[0].ids.tolist() == first[0].episodes[0].samples[0].ids.tolist()


def test_episodes_that_were_not_judged_yet_are_judged_without_being_generated(playing: Playing):
    playing.play()
    path = playing.directory / "train.jsonl"
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if '"kind":"verdicts"' not in line))
    asked = len(playing.prompts)
    groups = playing.play(replay=True)
    assert len(playing.prompts) == asked
    assert [e.reward for e in groups[0].episodes] == [0.0, 1.0]


def test_every_finished_episode_lies_in_the_store(playing: Playing):
    playing.play()
    assert {e.id: e.reward for e in read_episodes(playing.directory, "train")} == {
        f"train/1/t{i}/{r}": float(r) for i in range(3) for r in range(2)
    }


def test_a_judge_that_cannot_look_leaves_its_episode_unjudged(playing: Playing):
    class Blind(Whole):
        async def observe(self, episode, environment):
            raise OSError("no eyes")

    playing.judge = Blind()
    verdict = playing.play(repeats=1)[0].episodes[0].verdict
    assert isinstance(verdict, Unjudged)
    assert re.match(r"observe: OSError: no eyes \(\S*test_runner.py:", verdict.detail)


class Odd(Ask):
    """Returns what people return."""

    async def execute(self, workflow_task, tuner):
        output = await super().execute(workflow_task, tuner)
        reward = np.mean([1.0, 0.0])
        metadata = {
            **output.metadata,
            "pair": (1, 2),
            "place": Path("x"),
            "day": date(2026, 11, 24),
            "worst": np.float32(0.5),
            "thing": bytearray(b"x"),
            "half": "smile \ud83d",
        }
        metrics = {"calls": np.int64(3), "tool": "none", "nothing": None, "list": [1], "loss": math.nan}
        return WorkflowOutput(reward=reward, is_success=reward > 0.5, metadata=metadata, log_metrics=metrics)


def test_an_output_reaches_the_judge_as_it_is_stored(playing: Playing):
    playing.workflow = Odd
    episode = playing.play(repeats=1)[0].episodes[0]
    stored = next(read_episodes(playing.directory, "train"))
    assert (episode.output.reward, episode.output.is_success, episode.output.log_metrics) == (0.5, False, {"calls": 3.0})
    assert episode.output.metadata == {
        "final_answer": "four",
        "pair": [1, 2],
        "place": "x",
        "day": "2026-11-24",
        "worst": 0.5,
        "thing": "x",
        "half": "smile \ufffd",
    }
    assert stored.output == episode.output


def test_what_an_output_loses_is_counted_and_reported_once(playing: Playing):
    playing.workflow = Odd
    playing.play(repeats=1)
    assert sorted(text.partition(" in 3 episodes")[0] for text in playing.told) == [
        "WorkflowOutput.log_metrics['list'] must be a finite number and was list",
        "WorkflowOutput.log_metrics['loss'] must be a finite number and was nan",
        "WorkflowOutput.log_metrics['nothing'] must be a finite number and was NoneType",
        "WorkflowOutput.log_metrics['tool'] must be a finite number and was str",
        "WorkflowOutput.metadata['half'] holds text that is not valid Unicode",
        "WorkflowOutput.metadata['thing'] holds a bytearray, which is not a JSON value,",
    ]


@pytest.mark.parametrize("reward", [1e308, -1e308, math.nan, math.inf, 10**400, "1", {"a": math.inf}, {}, [1.0]])
def test_a_reward_without_a_finite_advantage_fails_its_episode_alone(playing: Playing, reward: Any):
    class Rewards(Ask):
        async def execute(self, workflow_task, tuner):
            await super().execute(workflow_task, tuner)
            return WorkflowOutput(reward=reward if workflow_task.repeat else 1.0)

    playing.workflow = Rewards
    (group, *_) = playing.play(repeats=2)
    good, bad = group.episodes
    assert (good.reward, bad.reward, bad.completed) == (1.0, None, False)
    assert (bad.failures[-1].reason, "WorkflowOutput.reward" in bad.failures[-1].detail) == ("workflow_error", True)


def test_what_a_judge_observed_is_made_plain(playing: Playing):
    class Sees(Whole):
        async def observe(self, episode, environment):
            return {"score": np.float32(0.5), "seen": {"b", "a"}, "text": "\udc80"}

    playing.judge = Sees()
    episode = playing.play(repeats=1)[0].episodes[0]
    assert episode.observations == {"score": 0.5, "seen": ["a", "b"], "text": "\ufffd"}
    assert playing.told == [
        "the judge's observation['text'] holds text that is not valid Unicode in 3 episodes: each lone surrogate became U+FFFD"
    ]


def test_the_model_may_sample_half_an_emoji_as_an_escape(playing: Playing):
    sampled = '<tool_call>\n{"name": "show", "arguments": {"text": "smile \\ud83d"}}\n</tool_call>'

    class Obeys(Workflow):
        async def execute(self, workflow_task, tuner):
            client = tuner.as_raw_openai_sdk_client()
            tool = {"type": "function", "function": {"name": "show", "parameters": {"type": "object"}}}
            messages: list[Any] = [{"role": "user", "content": "smile"}]
            first = await client.chat.completions.create(model="m", messages=messages, tools=[tool])
            (call,) = first.choices[0].message.tool_calls
            messages.append(first.choices[0].message.model_dump(exclude_none=True))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "shown"})
            await client.chat.completions.create(model="m", messages=messages, tools=[tool])
            return WorkflowOutput(reward=1.0, metadata={"final_answer": json.loads(call.function.arguments)["text"]})

    playing.workflow = Obeys
    playing.says = lambda prompt, request: "done" if "shown" in prompt else sampled  # type: ignore[method-assign]
    playing.max_tokens = 200
    before = playing.play(repeats=1)[0].episodes[0]
    (again, *_) = playing.play(repeats=1, replay=True)
    assert before.output.metadata == {"final_answer": "smile \ufffd"}
    # What was sampled is continued id for id.
    assert [call.parent for call in before.calls] == [None, 0]
    assert (again.episodes[0].output, again.episodes[0].calls[0].reply) == (before.output, before.calls[0].reply)
