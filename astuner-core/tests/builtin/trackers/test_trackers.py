"""Samples off hand-written trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from astuner.contract.protocols import EpisodeIdentity
from astuner.contract.schema import Call
from astuner.contract.token_streams import conversation, stream_ids
from astuner.episodes.builtin.trackers.linear import LinearTracker
from astuner.episodes.builtin.trackers.timeline import TimelineTracker

IDENTITY = EpisodeIdentity(episode_id="e", task_id="t", repeat=2)


def call(index: int, prompt: list[int], output: list[int], parent: int | None = None, kept: int = 0, **more: Any) -> Call:
    known = {
        "index": index,
        "agent": "a",
        "target_tag": "a",
        "parent": parent,
        "kept": kept,
        "prompt_ids": np.asarray(prompt, np.int32),
        "output_ids": np.asarray(output, np.int32),
        "logprobs": np.asarray([-float(number) for number in output], np.float32),
        "finish_reason": "stop",
    }
    return Call(**{**known, **more})


def rows(tracked: Any) -> list[tuple[list[int], str]]:
    return [(sample.ids.tolist(), "".join(".x"[bit] for bit in sample.mask.astype(int))) for sample in tracked.samples]


TURNS = [call(0, [1, 2], [3, 4]), call(1, [5], [6], parent=0, kept=4), call(2, [7, 8], [9], parent=1, kept=6)]


@pytest.mark.parametrize("tracker", [TimelineTracker, LinearTracker])
def test_a_growing_conversation_is_one_row(tracker: Any) -> None:
    tracked = tracker().samples(TURNS, IDENTITY)
    assert rows(tracked) == [([1, 2, 3, 4, 5, 6, 7, 8, 9], "..xx.x..x")]
    assert tracked.samples[0].logprobs.tolist() == [0, 0, -3, -4, 0, -6, 0, 0, -9]
    assert tracked.samples[0].calls == (0, 1, 2)
    assert (tracked.samples[0].episode_id, tracked.samples[0].repeat) == ("e", 2)
    assert tracked.untrained == {}


def test_timeline_trains_a_shared_prefix_once() -> None:
    branched = [*TURNS, call(3, [10], [11], parent=0, kept=4)]
    assert rows(TimelineTracker().samples(branched, IDENTITY)) == [
        ([1, 2, 3, 4, 5, 6, 7, 8, 9], "..xx.x..x"),
        ([1, 2, 3, 4, 10, 11], ".....x"),
    ]


def test_timeline_gives_a_retry_a_row_of_its_own() -> None:
    retried = [call(0, [1, 2], [3, 4]), call(1, [], [5], parent=0, kept=2)]
    assert rows(TimelineTracker().samples(retried, IDENTITY)) == [([1, 2, 3, 4], "..xx"), ([1, 2, 5], "..x")]


def test_timeline_trains_what_a_branch_inside_an_answer_leaves_behind() -> None:
    cut = [call(0, [1], [2, 3, 4]), call(1, [5], [6], parent=0, kept=3)]
    assert rows(TimelineTracker().samples(cut, IDENTITY)) == [([1, 2, 3, 4], ".xxx"), ([1, 2, 3, 5, 6], "....x")]


@pytest.mark.parametrize("tracker", [TimelineTracker, LinearTracker])
def test_calls_that_may_not_be_trained_are_context_and_counted(tracker: Any) -> None:
    calls = [
        call(0, [1], [2, 3], untrained="constrained"),
        call(1, [4], [5], parent=0, kept=3),
        call(2, [6], [7, 8], parent=1, kept=5, untrained="aborted"),
    ]
    tracked = tracker().samples(calls, IDENTITY)
    assert rows(tracked) == [([1, 2, 3, 4, 5], "....x")]
    assert tracked.untrained == {"constrained": 2, "aborted": 2}


@pytest.mark.parametrize("tracker", [TimelineTracker, LinearTracker])
def test_nothing_to_train_is_no_row(tracker: Any) -> None:
    tracked = tracker().samples([call(0, [1], [2], untrained="frozen_agent"), call(1, [3], [])], IDENTITY)
    assert (list(tracked.samples), tracked.untrained) == ([], {"frozen_agent": 1})


def test_timeline_keeps_agents_apart() -> None:
    tracked = TimelineTracker().samples([call(0, [1], [2]), call(1, [1], [3], agent="b")], IDENTITY)
    assert [sample.agent for sample in tracked.samples] == ["a", "b"]


def test_linear_leaves_branches_and_other_agents_out_and_counts_them() -> None:
    calls = [*TURNS, call(3, [10], [11], parent=0, kept=4), call(4, [1], [2, 3], agent="b"), call(5, [], [4], parent=0, kept=2)]
    tracked = LinearTracker().samples(calls, IDENTITY)
    assert rows(tracked) == [([1, 2, 3, 4, 5, 6, 7, 8, 9], "..xx.x..x")]
    assert tracked.untrained == {"branch_not_linear": 4}


def test_linear_starts_with_the_first_call_that_can_be_trained() -> None:
    calls = [call(0, [1], [], untrained="aborted"), call(1, [], [2], parent=0, kept=1)]
    assert rows(LinearTracker().samples(calls, IDENTITY)) == [([1, 2], ".x")]


def test_streams_and_conversations_are_rebuilt_from_the_tree() -> None:
    said = {"role": "assistant", "content": "hi"}
    ask = [{"role": "user", "content": text} for text in ("one", "two", "three")]
    calls = [
        call(0, [1, 2], [3, 4], messages=(ask[0],), reply=said),
        call(1, [5], [6], parent=0, kept=4, messages=(ask[1],), reply=said),
        call(2, [], [7], parent=0, kept=2, messages=(ask[2],), reply=said),
    ]
    assert stream_ids(calls, 1).tolist() == [1, 2, 3, 4, 5, 6]
    assert stream_ids(calls, 2).tolist() == [1, 2, 7]
    assert conversation(calls, 1) == (ask[0], said, ask[1])
    assert conversation(calls, 2) == (ask[0], ask[2])
