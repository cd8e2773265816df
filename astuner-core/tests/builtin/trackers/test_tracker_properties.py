"""What holds for every tracker and option on random episodes, in which each sampled id says where it comes from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from astuner.contract.protocols import EpisodeIdentity, Tracked
from astuner.contract.schema import Call
from astuner.contract.token_streams import stream_ids
from astuner.episodes.builtin.trackers.auto_context import AutoContextTracker
from astuner.episodes.builtin.trackers.linear import LinearTracker
from astuner.episodes.builtin.trackers.linear_think import LinearThinkTracker
from astuner.episodes.builtin.trackers.sliding_window import SlidingWindowTracker
from astuner.episodes.builtin.trackers.timeline import TimelineTracker
from astuner_devkit.calls import FIRST_SAMPLED, find_origins, make_up_calls

IDENTITY = EpisodeIdentity(episode_id="e", task_id="t", repeat=0)

EXACT: dict[str, Callable[[], Any]] = {
    "timeline": TimelineTracker,
    "timeline, branches told": lambda: TimelineTracker(reports_branches=True),
    "linear": LinearTracker,
    "sliding_window": SlidingWindowTracker,
    "auto_context": AutoContextTracker,
    "linear_think": LinearThinkTracker,
    "linear_think, last answers": lambda: LinearThinkTracker(LinearThinkTracker.Options(train_history_infer_token=False)),
}
INEXACT: dict[str, Callable[[], Any]] = {
    "text": lambda: TimelineTracker(merges_text=True),
    "text, tools told apart": lambda: TimelineTracker(merges_text=True, ignores_tools=False),
}
EVERY = {**EXACT, **INEXACT}


def edited(random: Random) -> tuple[Call, ...]:
    """Return an episode in which some prompts hold earlier answers word for word, in a history that was edited."""
    calls = list(make_up_calls(random))
    for _ in range(random.randint(0, 6)):
        last = random.choice(calls)
        stream = stream_ids(calls, last.index).tolist()
        history = [number for number in stream if number >= FIRST_SAMPLED or random.random() < 0.8]
        history = [number for number in history if number < FIRST_SAMPLED or random.random() < 0.98]
        sampled = random.randint(1, 4)
        first = FIRST_SAMPLED + sum(len(call.output_ids) for call in calls)
        output = np.arange(first, first + sampled, dtype=np.int32)
        calls.append(
            evolve(
                last,
                index=len(calls),
                parent=None,
                kept=0,
                prompt_ids=np.asarray([1, *history], np.int32),
                output_ids=output,
                logprobs=(-output / 1024).astype(np.float32),
                tools=random.choice(((), ({"type": "function"},))),
            )
        )
    return tuple(calls)


# Seeds, since hypothesis would have its own generator draw mostly small numbers, and branch little.
episodes = st.integers(0, 2**32).map(lambda seed: edited(Random(seed)))


def trained(tracked: Tracked) -> list[tuple[Any, int, int]]:
    return [
        (sample, place, int(sample.ids[place])) for sample in tracked.samples for place in np.flatnonzero(sample.mask).tolist()
    ]


@pytest.mark.parametrize("make", EVERY.values(), ids=EVERY)
@settings(max_examples=25)
@given(calls=episodes)
def test_each_sampled_token_is_trained_once_or_counted(make: Callable[[], Any], calls: Sequence[Call]) -> None:
    tracked = make().samples(calls, IDENTITY)
    counts = Counter(number for _, _, number in trained(tracked))
    assert max(counts.values(), default=1) == 1
    assert len(counts) + sum(tracked.untrained.values()) == sum(len(call.output_ids) for call in calls)


@pytest.mark.parametrize("make", EVERY.values(), ids=EVERY)
@settings(max_examples=25)
@given(calls=episodes)
def test_what_is_trained_was_sampled_by_that_agent_with_that_logprob(make: Callable[[], Any], calls: Sequence[Call]) -> None:
    known = find_origins(calls)
    for sample, place, number in trained(make().samples(calls, IDENTITY)):
        origin = known[number]
        assert (origin.call.agent, origin.call.untrained, origin.logprob) == (sample.agent, None, float(sample.logprobs[place]))
        assert origin.call.index in sample.calls


@pytest.mark.parametrize("make", EVERY.values(), ids=EVERY)
@settings(max_examples=25)
@given(calls=episodes)
def test_samples_are_well_formed_and_end_with_what_they_train(make: Callable[[], Any], calls: Sequence[Call]) -> None:
    for sample in make().samples(calls, IDENTITY).samples:
        assert len(sample.ids) == len(sample.mask) == len(sample.logprobs)
        assert sample.mask[-1]
        assert not sample.logprobs[~sample.mask].any()


@pytest.mark.parametrize("make", EXACT.values(), ids=EXACT)
@settings(max_examples=25)
@given(calls=episodes)
def test_a_token_is_trained_under_the_ids_it_was_sampled_under(make: Callable[[], Any], calls: Sequence[Call]) -> None:
    known = find_origins(calls)
    for sample, place, number in trained(make().samples(calls, IDENTITY)):
        assert np.array_equal(sample.ids[:place], known[number].prefix)


@settings(max_examples=25)
@given(calls=episodes)
def test_text_trains_what_token_does_in_no_more_rows(calls: Sequence[Call]) -> None:
    exact, merged = (TimelineTracker(merges_text=text).samples(calls, IDENTITY) for text in (False, True))
    assert {number for _, _, number in trained(merged)} == {number for _, _, number in trained(exact)}
    assert merged.untrained == exact.untrained
    assert len(merged.samples) <= len(exact.samples)


@settings(max_examples=25)
@given(calls=episodes)
def test_under_text_an_answer_keeps_its_words_in_their_order(calls: Sequence[Call]) -> None:
    known = find_origins(calls)
    for sample, place, number in trained(TimelineTracker(merges_text=True).samples(calls, IDENTITY)):
        origin = known[number]
        start = place - origin.place
        assert sample.ids[max(start, 0) : place].tolist() == origin.prefix[len(origin.prefix) - origin.place :].tolist()


@settings(max_examples=25)
@given(calls=episodes)
def test_last_answers_alone_are_one_call_per_row(calls: Sequence[Call]) -> None:
    tracked = EXACT["linear_think, last answers"]().samples(calls, IDENTITY)
    assert [len(sample.calls) for sample in tracked.samples] == [1] * len(tracked.samples)
    assert {call.untrained for call in calls if call.untrained} | {"history_answer"} >= set(tracked.untrained)
