"""An answer that was cut off leaves the loss, its reward stays in the comparison, and every token has its reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attrs import evolve

from astuner.contract.protocols import Tracked, Workflow
from astuner.contract.schema import Episode, WorkflowOutput
from astuner.episodes.judging.advantages import compute_advantages
from astuner.episodes.judging.estimators import DrGrpo
from astuner.episodes.rollout.metrics import compute_rollout_metrics
from astuner.episodes.rollout.overlong_filter import filter_overlong
from astuner.episodes.transcript.signal_waterfall import build_waterfall
from astuner_devkit.episodes import episode, group


def ended(repeat: int, reward: float, finish_reason: str, **changes: Any) -> Episode:
    """Return an episode as the filter leaves it."""
    made = episode(repeat, reward)
    calls = tuple(evolve(call, finish_reason=finish_reason, **changes) for call in made.calls)
    tracked = filter_overlong(Tracked(samples=made.samples), calls)
    return evolve(made, calls=calls, samples=tuple(tracked.samples), untrained=dict(tracked.untrained))


def test_tokens_of_a_cut_off_answer_are_counted_with_their_reason() -> None:
    groups = [group(ended(0, 1.0, "length"), ended(1, 0.0, "stop"))]
    rows = compute_advantages(groups, DrGrpo())
    metrics = compute_rollout_metrics(groups, rows)
    assert (metrics["signal/lost/tokens_truncated"], metrics["signal/tokens_trainable"]) == (3, 3)
    assert build_waterfall(groups, rows).unexplained == 0


def test_the_reward_of_a_cut_off_answer_still_counts_for_its_siblings() -> None:
    rows = compute_advantages([group(ended(0, 1.0, "length"), ended(1, 0.0, "stop"))], DrGrpo())
    assert [(row.sample.trained, row.advantage) for row in rows] == [(0, 0.5), (3, -0.5)]


@pytest.mark.parametrize("agent", ["agent", "other"])
def test_only_the_agent_that_was_cut_off_leaves(agent: str) -> None:
    made = episode(0, 1.0, agents=("agent", "other"))
    cut = [evolve(call, agent=agent, finish_reason="length") for call in made.calls]
    found = filter_overlong(Tracked(samples=made.samples), cut)
    assert {sample.agent for sample in found.samples if sample.trained} == {"agent", "other"} - {agent}


def test_an_answer_that_is_not_trained_anyway_leaves_the_others() -> None:
    assert ended(0, 1.0, "length", untrained="frozen_agent").samples[0].trained == 3


def test_the_recorded_ids_stay() -> None:
    assert np.array_equal(ended(0, 1.0, "length").samples[0].ids, episode().samples[0].ids)


class Asks(Workflow):
    async def execute(self, workflow_task: Any, tuner: Any) -> WorkflowOutput:
        client = tuner.as_raw_openai_sdk_client()
        await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Count."}])
        return WorkflowOutput(reward=1.0)


@pytest.mark.parametrize(
    ("max_tokens", "max_model_len", "ended"), [(5, 2000, "length"), (2000, 200, "context")], ids=["own limit", "end of context"]
)
def test_an_answer_cut_off_at_any_limit_is_left_out(stage: Any, max_tokens: int, max_model_len: int, ended: str) -> None:
    playing = stage(Asks, lambda prompt, request: "one two three " * 200, options={"max_model_len": max_model_len})
    [played] = playing.play(max_tokens=max_tokens).episodes
    found = filter_overlong(Tracked(samples=played.samples), played.calls)
    assert [call.finish_reason for call in played.calls] == [ended]
    assert sum(sample.trained for sample in found.samples) == 0
