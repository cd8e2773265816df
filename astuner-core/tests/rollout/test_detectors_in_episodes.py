"""What the finding of a detector does to its episode, its siblings, the store, the metrics and the transcript."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest

from astuner.contract.protocols import Judge, Workflow
from astuner.contract.schema import Finding, Verdict, WorkflowOutput
from astuner.episodes.judging.advantages import compute_advantages
from astuner.episodes.judging.estimators import DrGrpo
from astuner.episodes.rollout.metrics import compute_rollout_metrics, compute_validation_metrics
from astuner.episodes.rollout.workflows import load_workflow
from astuner.episodes.transcript.episode_text import format_transcript
from astuner.runs.store.episode_store import read_episodes
from astuner_devkit.sampled_answers import function_tool

ADD = function_tool("add", {"type": "object", "required": ["a"]})
WRONG = '<tool_call>\n{"name": "add", "arguments": {}}\n</tool_call>'
EVIDENCE = "calls 'add' with '{}': arguments: missing 'a'"


class WrongToolcall:
    """Finds calls without arguments."""

    def look(self, output):
        calls = output.call.reply.get("tool_calls") or ()
        return EVIDENCE if any(call["function"]["arguments"] == "{}" for call in calls) else None


class SpecialTokens:
    def look(self, output):
        return " ".join(output.special_tokens) or None


class Deaf:
    def look(self, output):
        return None


class ThreeTurns(Workflow):
    """Asks three times, whatever is answered; `refusals` keeps what the gateway refused."""

    refusals: list[openai.APIStatusError]
    ended: list[str]

    async def execute(self, workflow_task, tuner):
        client = tuner.as_raw_openai_sdk_client()
        messages: list[Any] = [{"role": "user", "content": f"sibling {workflow_task.repeat}: how much is 2 + 2?"}]
        for turn in range(3):
            answer = await client.chat.completions.create(model="m", messages=messages, tools=[ADD])
            messages += [answer.choices[0].message.model_dump(exclude_none=True)]
            messages += [
                {"role": "tool", "tool_call_id": call.id, "content": "4"} for call in answer.choices[0].message.tool_calls or ()
            ]
            messages += [{"role": "user", "content": f"turn {turn + 1}: sure?"}]
            # As a tool would take its time: one that asks on at once is refused before it is cancelled.
            await asyncio.sleep(0.01)
        return WorkflowOutput(metadata={"final_answer": answer.choices[0].message.content})


def says(wrong: str = WRONG, *, repeat: int = 0, turn: int = 1) -> Callable[[str, Any], str]:
    """One sibling answers one turn wrongly."""

    def answer(prompt: str, request: Any) -> str:
        mad = f"sibling {repeat}:" in prompt and prompt.count("sure?") == turn
        return wrong if mad else "four"

    return answer


def workflow_in_a_file(name: str) -> type[Workflow]:
    """Load a workflow as worker processes do."""
    return load_workflow(f"./blocking_workflows.py:{name}", Path(__file__).parent).make().__class__


class Pleased(Judge):
    def __init__(self) -> None:
        self.seen: list[list[int]] = []

    async def judge(self, group):
        completed = [e for e in group.episodes if e.completed]
        self.seen.append([e.repeat for e in completed])
        return [Verdict(1.0, e.output.metadata["final_answer"] == "four") for e in completed]


@pytest.fixture
def watched(stage):
    def make(workflow: type[Workflow] = ThreeTurns, answer: Any = None, **more: Any) -> Any:
        known: dict[str, Any] = {"detectors": [("wrong_toolcall", WrongToolcall())], "judge": Pleased()}
        return stage(workflow, answer or says(), **{**known, **more})

    return make


def test_a_finding_ends_the_episode_there(watched):
    (episode,) = watched().play().episodes
    assert [call.index for call in episode.calls] == [0, 1]
    assert episode.findings == {"wrong_toolcall": (Finding(call=1, evidence=EVIDENCE),)}
    assert (episode.completed, episode.reward, episode.is_success) == (True, -1.0, False)


def test_what_was_sampled_is_trained_with_the_reward_for_it(watched):
    group = watched().play(2)
    bad, good = group.episodes
    assert [sample.calls for sample in bad.samples] == [(0, 1)]
    assert sum(sample.trained for sample in bad.samples) == sum(len(call.output_ids) for call in bad.calls)
    assert {row.sample.episode_id: row.advantage for row in compute_advantages([group], DrGrpo())} == {bad.id: -1.0, good.id: 1.0}


def test_without_termination_the_episode_plays_on_and_its_reward_is_replaced(watched):
    (episode,) = watched(options={"agent_madness_termination": False, "agent_madness_reward": -0.5}).play().episodes
    assert [call.index for call in episode.calls] == [0, 1, 2]
    assert (episode.output.metadata["final_answer"], episode.reward) == ("four", -0.5)


def test_each_finding_of_an_episode_that_plays_on_is_kept(watched):
    answers = lambda prompt, request: "four" if prompt.count("sure?") == 1 else WRONG  # noqa: E731
    (episode,) = watched(answer=answers, options={"agent_madness_termination": False}).play().episodes
    assert [finding.call for finding in episode.findings["wrong_toolcall"]] == [0, 2]


def test_a_workflows_own_reward_is_replaced_too(watched):
    class Proud(ThreeTurns):
        async def execute(self, workflow_task, tuner):
            await super().execute(workflow_task, tuner)
            return WorkflowOutput(reward=5.0, is_success=True)

    (episode,) = watched(Proud, options={"agent_madness_termination": False}).play().episodes
    assert (episode.reward, episode.is_success) == (-1.0, False)


def test_the_verdict_says_that_no_judge_gave_it(watched):
    (episode,) = watched().play().episodes
    assert episode.verdict.rationale == (
        f"rollout.agent_madness_reward, since detectors found wrong_toolcall in call 1: {EVIDENCE}"
    )


def test_the_judge_sees_the_other_siblings_only(watched):
    stage = watched(answer=says(repeat=1))
    assert [e.reward for e in stage.play(3).episodes] == [1.0, -1.0, 1.0]
    assert stage.judge.seen == [[0, 2]]


def test_the_judge_is_not_asked_where_every_sibling_is_abnormal(watched):
    stage = watched(answer=lambda prompt, request: WRONG)
    assert [e.reward for e in stage.play(2).episodes] == [-1.0, -1.0]
    assert stage.judge.seen == []


def test_validation_episodes_are_watched_as_well(watched):
    group = watched().play(2, split="validation")
    assert [e.reward for e in group.episodes] == [-1.0, 1.0]
    found = compute_validation_metrics([group])
    assert (found["val/madness/wrong_toolcall"], found["val/success/rate"], found["val/pass@1"]) == (0.5, 0.5, 0.5)


def test_further_calls_are_refused_in_the_shape_of_the_api(watched):
    refusals = []

    class GoesOn(ThreeTurns):
        async def execute(self, workflow_task, tuner):
            client = tuner.as_raw_openai_sdk_client(max_retries=3)
            try:
                return await super().execute(workflow_task, tuner)
            except asyncio.CancelledError:
                # Cancelled, it asks all the same.
                with pytest.raises(openai.PermissionDeniedError) as refused:
                    await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "again"}])
                refusals.append(refused.value)
                raise

    (episode,) = watched(GoesOn).play().episodes
    assert [(error.code, error.response.headers["x-should-retry"]) for error in refusals] == [("episode_terminated", "false")]
    assert f"This episode was ended: the detector 'wrong_toolcall' found {EVIDENCE}" in refusals[0].message
    assert (len(episode.calls), episode.reward) == (2, -1.0)


def test_a_workflow_that_is_ended_is_cancelled_and_cleans_up(watched):
    cleaned = []

    class Tidy(ThreeTurns):
        async def execute(self, workflow_task, tuner):
            try:
                return await super().execute(workflow_task, tuner)
            except asyncio.CancelledError:
                await asyncio.sleep(0)
                cleaned.append(workflow_task.episode_id)
                raise

    watched(Tidy).play()
    assert cleaned == ["train/1/t/0"]


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_workflow_elsewhere_is_ended_too(watched, isolation):
    (episode,) = (
        watched(workflow_in_a_file("AsksForEver"), lambda prompt, request: WRONG, options={"isolation": isolation})
        .play()
        .episodes
    )
    assert (len(episode.calls), episode.reward) == (1, -1.0)


def test_frozen_agents_are_not_watched(watched):
    (episode,) = watched(trainable_targets=("other",), judge=Pleased()).play().episodes
    assert (len(episode.calls), episode.findings, episode.reward) == (3, {"wrong_toolcall": ()}, 1.0)


def test_a_failure_after_a_finding_is_a_failure(watched):
    class Breaks(ThreeTurns):
        async def execute(self, workflow_task, tuner):
            await super().execute(workflow_task, tuner)
            raise RuntimeError("broke")

    (episode,) = watched(Breaks, options={"agent_madness_termination": False}).play().episodes
    assert (episode.completed, episode.reward, episode.abnormal) == (False, None, True)


def test_without_detectors_nothing_is_watched(watched):
    (episode,) = watched(detectors=[]).play().episodes
    assert (len(episode.calls), episode.findings, episode.reward) == (3, {}, 1.0)


def test_findings_lie_in_the_store_and_come_back(watched):
    stage = watched()
    (played,) = stage.play().episodes
    (stored,) = read_episodes(stage.directory, "train")
    assert (stored.findings, stored.verdict) == (played.findings, played.verdict)
    (again,) = stage.play(replay=True).episodes
    assert (again.findings, again.reward, len(stage.judge.seen)) == (played.findings, -1.0, 0)


def test_the_share_of_abnormal_episodes_is_a_metric_of_each_detector(watched):
    detectors = [("wrong_toolcall", WrongToolcall()), ("deaf", Deaf())]
    found = compute_rollout_metrics([watched(detectors=detectors).play(4)], [])
    assert {name: value for name, value in found.items() if name.startswith("madness/")} == {
        "madness/wrong_toolcall": 0.25,
        "madness/deaf": 0.0,
    }
    assert (found["success/rate"], found["reward/mean"]) == (0.75, 0.5)


def test_where_nobody_speaks_of_success_an_abnormal_episode_does_not_either(watched):
    class Silent(Pleased):
        async def judge(self, group):
            return [Verdict(1.0) for e in group.episodes if e.completed]

    group = watched(judge=Silent()).play(2)
    assert "success/rate" not in compute_rollout_metrics([group], [])
    assert "val/pass@1" not in compute_validation_metrics([group])


def test_the_transcript_shows_the_evidence_below_its_call(watched):
    (episode,) = watched().play().episodes
    lines = format_transcript(episode).splitlines()
    assert lines[lines.index("  assistant: -> add({})") + 1] == f"    abnormal: wrong_toolcall: {EVIDENCE}"


def test_a_leaked_special_token_is_told_from_those_of_tool_calls_and_of_the_turn(watched):
    right = '<think>\nhm\n</think>\n\n<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
    answers = lambda prompt, request: "4<|im_start|>user" if prompt.count("sure?") == 1 else right  # noqa: E731
    (episode,) = watched(answer=answers, detectors=[("leak", SpecialTokens())]).play().episodes
    assert episode.findings == {"leak": (Finding(call=1, evidence="<|im_start|>"),)}


def test_a_detector_that_fails_is_named_and_the_episode_goes_on(watched):
    class Broken:
        def look(self, output):
            raise KeyError("no")

    class Odd:
        def look(self, output):
            return True

    stage = watched(detectors=[("broken", Broken()), ("odd", Odd())])
    (episode,) = stage.play().episodes
    assert (len(episode.calls), episode.reward) == (3, 1.0)
    broken, odd = stage.told
    place = r"\(\S*test_detectors_in_episodes.py:\d+ in look\)"
    assert re.fullmatch(rf"detector 'broken' raised KeyError: 'no' {place}; what it would have found there is missing", broken)
    assert odd == "detector 'odd' returned True; it must return the evidence as text, or None"


def test_long_evidence_is_cut(watched):
    class Verbose:
        def look(self, output):
            return "x" * 900

    (episode,) = watched(detectors=[("verbose", Verbose())]).play().episodes
    assert episode.findings["verbose"][0].evidence == "x" * 500 + "…"


def test_tools_of_a_conversation_reach_the_detector_on_every_turn(watched):
    class Remembers:
        seen: list[tuple[Any, ...]]

        def look(self, output):
            self.seen.append((output.call.index, len(output.call.tools), len(output.tools), output.text))

    remembers = Remembers()
    remembers.seen = []
    watched(detectors=[("remembers", remembers)], answer=lambda prompt, request: "four").play()
    assert remembers.seen == [(0, 1, 1, "four"), (1, 0, 1, "four"), (2, 0, 1, "four")]
