"""Trackers that manage the conversation, in whole runs: what the model was shown, what is trained, what the user is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from astuner.contract.schema import Episode
from astuner.contract.token_streams import conversation, stream_ids
from astuner.shared.clients.llm_endpoint import NoEndpoint

TALKS = """
class Talks:
    def __init__(self, workflow_task):
        self.steps = 0
    async def reset(self):
        return [{"role": "user", "content": "count to four"}]
    async def step(self, action):
        self.steps += 1
        return [{"role": "user", "content": f"step {self.steps} " + "so far so good " * 20}], 0.0, self.steps == 4, {}
    async def evaluate(self):
        return 1.0
    async def close(self):
        pass
"""
Played = Callable[..., Any]


@pytest.fixture
def played(tmp_path: Path, run: Played) -> Played:
    (tmp_path / "talks.py").write_text(TALKS)

    def play(tracker: str, replies: list[str], section: dict[str, Any] | None = None, **options: Any) -> Any:
        settings = {
            "task_judge": {},
            "rollout": {"user_workflow": None, "use_agentscope_protocol": False, "max_response_length_in_one_turn": 200},
            "environment": {"environment_type": "./talks.py:Talks"},
            "context_tracker": {"context_tracker_type": tracker, tracker: options, **(section or {})},
        }
        return run(tasks=[{"task_id": "t", "main_query": "count"}], replies=replies, settings=settings)

    return play


def shown(episode: Episode, call: int) -> list[str]:
    return [message["content"] for message in conversation(episode.calls, call)]


def inexact(episode: Episode) -> list[int]:
    """Return the trained positions whose prefix is of no call's stream."""
    found = []
    for sample in episode.samples:
        streams = [stream_ids(episode.calls, index) for index in sample.calls]
        for place in np.flatnonzero(sample.mask).tolist():
            if not any(np.array_equal(sample.ids[: place + 1], stream[: place + 1]) for stream in streams):
                found.append(place)
    return found


def sampled(episode: Episode) -> int:
    return sum(len(call.output_ids) for call in episode.calls)


def test_a_summary_of_the_model_is_shown_from_then_on_and_trained(played: Played) -> None:
    replies = ["one", "two", "three", "counted three", "four"]
    outcome = played("auto_context", replies, train_sp_action=True, token_num_trigger_clip=700)
    [episode] = outcome.episodes
    assert [call.reply["content"] for call in episode.calls] == replies
    assert shown(episode, 4)[0] == "count to four\n\n[Summary of 4 earlier messages]\ncounted three"
    assert shown(episode, 4)[1] == "three"
    assert sorted(index for sample in episode.samples for index in sample.calls) == [0, 1, 2, 3, 4]
    assert (inexact(episode), sum(sample.trained for sample in episode.samples)) == ([], sampled(episode))
    assert outcome.metrics["signal/branches"] == 2


def test_a_window_that_moves_is_a_row_of_its_own(played: Played) -> None:
    [episode] = played("sliding_window", ["one", "two", "three", "four"], max_turns=2, keep_turns=1).episodes
    assert shown(episode, 3)[:2] == ["count to four\n\n[4 earlier messages are left out here.]", "three"]
    assert [sample.calls for sample in episode.samples] == [(0, 1, 2), (3,)]
    assert inexact(episode) == []


def test_thinking_is_in_the_answer_and_in_no_later_prompt(played: Played) -> None:
    replies = ["<think>hm one</think>one", "<think>hm two</think>two", "three", "four"]
    [episode] = played("linear_think", replies).episodes
    assert [reply for reply in shown(episode, 2) if not reply.startswith("step")] == ["count to four", "one", "two"]
    assert [sample.calls for sample in episode.samples] == [(0,), (1,), (2, 3)]
    assert (inexact(episode), sum(sample.trained for sample in episode.samples)) == ([], sampled(episode))


def test_answers_before_the_last_are_untrained_on_demand_and_counted(played: Played) -> None:
    outcome = played("linear_think", ["one", "two", "three", "four"], train_history_infer_token=False)
    [episode] = outcome.episodes
    assert [sample.calls for sample in episode.samples] == [(3,)]
    assert sum(sample.trained for sample in episode.samples) + episode.untrained["history_answer"] == sampled(episode)
    assert outcome.metrics["signal/lost/tokens_history_answer"] == episode.untrained["history_answer"]


def test_long_messages_of_the_environment_are_cut_for_every_tracker(played: Played) -> None:
    outcome = played("timeline", ["one", "two", "three", "four"], {"max_env_len": 60})
    cut = [text for text in shown(outcome.episodes[0], 3) if text.startswith("step")]
    assert ["characters are left out]" in text for text in cut] == [True] * 3


def test_a_summary_that_fails_costs_a_notice_and_no_episode(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setattr("astuner.shared.clients.backoff.LONGEST_PAUSE_S", 0.0)
    outcome = played("auto_context", ["one", "two", "three", "four"], token_num_trigger_clip=400)
    assert outcome.rewards == [1.0]
    assert shown(outcome.episodes[0], 3)[0] == "count to four\n\n[4 earlier messages are left out here.]"
    assert ["a summary could not be made (LLMFailed: LLM" in text for text in outcome.notices].count(True) == 1


def test_an_llm_without_a_key_is_said_before_the_first_episode(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "DASHSCOPE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(NoEndpoint, match=r"context_tracker\.auto_context with train_sp_action: false needs an LLM"):
        played("auto_context", ["one"])


ANEW = """
from astuner import Workflow, WorkflowOutput

class Anew(Workflow):
    async def execute(self, workflow_task, tuner):
        client = tuner.as_raw_openai_sdk_client()
        for text in ("a", "b", "c"):
            await client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])
        return WorkflowOutput(reward=1.0)
"""


@pytest.fixture
def anew(tmp_path: Path, run: Played) -> Played:
    """Plays an agent that begins three conversations."""
    (tmp_path / "agent.py").write_text(ANEW)
    return lambda settings: run(workflow="./agent.py:Anew", replies=["x", "a longer answer", "y"], settings=settings)


def test_branches_are_told_of_once_on_demand_and_always_counted(anew: Played) -> None:
    silent, told = anew({}), anew({"context_tracker": {"detect_timeline_snap": True}})
    assert [text for text in silent.notices if "detect_timeline_snap" in text] == []
    [text] = [text for text in told.notices if "detect_timeline_snap" in text]
    assert "agent 'agent' branches, first in episode train/1/sum/0 with call 1" in text
    assert silent.metrics["signal/branches"] == told.metrics["signal/branches"] == 2


def test_samples_over_the_limit_are_named_with_the_key_to_raise(anew: Played) -> None:
    outcome = anew({"rollout": {"multi_turn": {"max_sample_per_task": 1}}})
    [episode] = outcome.episodes
    assert len(episode.samples) == 1
    lost = episode.untrained["over_sample_limit"]
    [notice] = [text for text in outcome.notices if "max_sample_per_task" in text]
    assert f"2 samples ({lost} tokens) of 1 episodes were left out" in notice
