"""`timeline_compare_level: text` on hand-written trees."""

from __future__ import annotations

from typing import Any

import numpy as np

from astuner.contract.protocols import EpisodeIdentity
from astuner.contract.schema import Call
from astuner.episodes.builtin.trackers.timeline import TimelineTracker

IDENTITY = EpisodeIdentity(episode_id="e", task_id="t", repeat=0)


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


def rows(calls: list[Call], **options: Any) -> list[tuple[list[int], str]]:
    tracked = TimelineTracker(merges_text=True, **options).samples(calls, IDENTITY)
    return [(sample.ids.tolist(), "".join(".x"[bit] for bit in sample.mask.astype(int))) for sample in tracked.samples]


def test_an_answer_that_a_later_prompt_holds_is_trained_there() -> None:
    calls = [call(0, [1, 2], [3, 4]), call(1, [1, 9, 3, 4, 5], [6])]
    assert rows(calls) == [([1, 9, 3, 4, 5, 6], "..xx.x")]
    [sample] = TimelineTracker(merges_text=True).samples(calls, IDENTITY).samples
    assert sample.logprobs.tolist() == [0, 0, -3, -4, 0, -6]
    assert sample.calls == (0, 1)


def test_what_both_prompts_begin_with_is_not_taken_for_the_answer() -> None:
    assert rows([call(0, [3, 4, 2], [3, 4]), call(1, [3, 4, 9, 3, 4, 5], [6])]) == [([3, 4, 9, 3, 4, 5, 6], "...xx.x")]
    assert len(rows([call(0, [3, 4, 2], [3, 4]), call(1, [3, 4, 9, 5], [6])])) == 2


def test_an_answer_that_was_changed_keeps_its_row() -> None:
    assert len(rows([call(0, [1, 2], [3, 4]), call(1, [1, 9, 3, 7, 4], [6])])) == 2


def test_a_row_moves_whole_or_not_at_all() -> None:
    calls = [call(0, [1], [3]), call(1, [2], [4], parent=0, kept=2), call(2, [9, 3, 5], [6])]
    assert rows(calls) == [([1, 3, 2, 4], ".x.x"), ([9, 3, 5, 6], "...x")]


def test_answers_keep_their_order() -> None:
    calls = [call(0, [1], [3]), call(1, [2], [4], parent=0, kept=2), call(2, [9, 4, 3], [6])]
    assert len(rows(calls)) == 2


def test_equal_answers_take_places_in_their_order() -> None:
    calls = [call(0, [1], [3]), call(1, [2], [3], logprobs=np.asarray([-9], np.float32)), call(2, [9, 3, 8, 3, 7], [6])]
    assert rows(calls) == [([9, 3, 8, 3, 7, 6], ".x.x.x")]
    [sample] = TimelineTracker(merges_text=True).samples(calls, IDENTITY).samples
    assert sample.logprobs.tolist() == [0, -3, 0, -9, 0, -6]


def test_an_earlier_prompt_cannot_hold_a_later_answer() -> None:
    calls = [call(0, [1, 3], [2]), call(1, [8], [3]), call(2, [4], [5], parent=0, kept=3)]
    assert len(rows(calls)) == 2


def test_ids_are_compared_whole() -> None:
    # As bytes, 256 ends where 1 begins.
    assert len(rows([call(0, [5], [1]), call(1, [7, 256, 0], [6])])) == 2


def test_another_agent_is_another_conversation() -> None:
    assert len(rows([call(0, [1], [3]), call(1, [9, 3], [6], agent="b")])) == 2


def test_tools_tell_conversations_apart_when_they_are_not_ignored() -> None:
    calls = [call(0, [1], [3]), call(1, [9, 3], [6], tools=({"type": "function"},))]
    assert (len(rows(calls)), len(rows(calls, ignores_tools=False))) == (1, 2)


def test_what_two_paths_share_goes_to_its_own_place() -> None:
    shared = [call(0, [1], [3]), call(1, [2], [4], parent=0, kept=2), call(2, [5, 4, 8], [6], parent=0, kept=2)]
    assert rows(shared) == [([1, 3, 5, 4, 8, 6], ".x.x.x")]
