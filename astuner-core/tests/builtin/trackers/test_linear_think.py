from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from astuner.contract.protocols import ContextRoom, EpisodeIdentity
from astuner.contract.schema import Call
from astuner.episodes.builtin.trackers.linear_think import LinearThinkTracker
from astuner.episodes.builtin.trackers.thinking import find_last_boxed, strip_thinking

REPLY = {"role": "assistant", "content": r"<think>try \boxed{1}</think>so \boxed{2}", "reasoning_content": "hm"}


def tracker(**options: Any) -> LinearThinkTracker:
    return LinearThinkTracker(LinearThinkTracker.Options(**options))


def test_the_last_answer_of_a_path_may_be_followed_by_a_question_without_one() -> None:
    first = Call(
        index=0,
        agent="a",
        target_tag="a",
        parent=None,
        kept=0,
        prompt_ids=np.asarray([1], np.int32),
        output_ids=np.asarray([2, 3], np.int32),
        logprobs=np.zeros(2, np.float32),
        finish_reason="stop",
    )
    none = np.empty(0, np.int32)
    unanswered = evolve(first, index=1, parent=0, kept=3, output_ids=none, logprobs=none.astype(np.float32))
    identity = EpisodeIdentity(episode_id="e", task_id="t", repeat=0)
    tracked = tracker(train_history_infer_token=False).samples([first, unanswered], identity)
    assert ([sample.calls for sample in tracked.samples], tracked.untrained) == ([(0,)], {})


def test_old_reasoning_is_not_shown() -> None:
    call = {"id": "1", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "<think> is a word"},
        {"role": "assistant", "content": "<think>a</think>b", "reasoning_content": "c", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "d"},
    ]
    room = ContextRoom(max_prompt_tokens=1, count_tokens=None, ask_model=None)  # type: ignore[arg-type]  # never asked
    assert asyncio.run(tracker().view(messages, room)) == [
        messages[0],
        {"role": "assistant", "content": "b", "tool_calls": [call]},
        messages[2],
    ]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("plain", "plain"),
        ("<think>a</think>\n\nb", "b"),
        ("opened by the template</think>b", "b"),
        ("<think>a</think>b<think>c</think>d", "d"),
        ("<think>cut off", ""),
        ("<think>a</think>b<think>cut off", "b"),
    ],
)
def test_reasoning_is_what_comes_before_the_answer(text: str, answer: str) -> None:
    assert strip_thinking(text) == answer


@pytest.mark.parametrize(
    ("text", "box"),
    [
        ("none", None),
        (r"\boxed{1} or \boxed{2}", "2"),
        (r"\box{go north}", "go north"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{1} then \boxed{2", "1"),
        (r"\boxed{}", ""),
    ],
)
def test_the_last_closed_box_counts(text: str, box: str | None) -> None:
    assert find_last_boxed(text) == box


def test_the_environment_is_given_the_reply_as_it_is() -> None:
    assert tracker().action(REPLY) == REPLY


def test_the_environment_is_given_the_answer_without_its_reasoning_on_demand() -> None:
    removed = tracker(remove_think_before_submit_as_action=True).action(REPLY)
    assert removed == {"role": "assistant", "content": r"so \boxed{2}"}


def test_the_environment_is_given_the_box_on_demand() -> None:
    assert tracker(extract_box_before_submit_as_action=True).action(REPLY)["content"] == "2"
    plain = {"role": "assistant", "content": "go"}
    assert tracker(extract_box_before_submit_as_action=True).action(plain) == plain
