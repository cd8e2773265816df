"""What transcript and waterfall say of tokens, on random episodes in which each sampled id says where it comes from."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from hypothesis import example, given, settings
from hypothesis import strategies as st

from astuner.contract.protocols import EpisodeIdentity
from astuner.contract.schema import Call, Episode, Failure, Group, Task, Unjudged, Verdict, WorkflowOutput
from astuner.contract.token_streams import index_calls, stream_ids
from astuner.episodes.builtin.trackers.linear import LinearTracker
from astuner.episodes.builtin.trackers.linear_think import LinearThinkTracker
from astuner.episodes.builtin.trackers.sliding_window import SlidingWindowTracker
from astuner.episodes.builtin.trackers.timeline import TimelineTracker
from astuner.episodes.judging.advantages import compute_advantages
from astuner.episodes.judging.estimators import DrGrpo
from astuner.episodes.rollout.metrics import compute_rollout_metrics
from astuner.episodes.rollout.sample_limit import limit_samples
from astuner.episodes.transcript.signal_waterfall import build_waterfall
from astuner.episodes.transcript.trained_tokens import NO_CALL, find_trained_stretches, mark_trained_tokens
from astuner_devkit.calls import FIRST_SAMPLED, make_up_calls
from astuner_devkit.episodes import episode

TRACKERS: dict[str, Callable[[], Any]] = {
    "timeline": TimelineTracker,
    "linear": LinearTracker,
    "sliding_window": SlidingWindowTracker,
    "linear_think": LinearThinkTracker,
    "timeline by text": lambda: TimelineTracker(merges_text=True),
}


def calls_with_a_history_told_again(random: Random) -> tuple[Call, ...]:
    """Return an episode whose last call was asked with everything before it, as new ids and without some of them."""
    calls = list(make_up_calls(random))
    last = random.choice(calls)
    again = [number for number in stream_ids(calls, last.index).tolist() if random.random() < 0.95]
    first = FIRST_SAMPLED + sum(len(call.output_ids) for call in calls)
    output = np.arange(first, first + 3, dtype=np.int32)
    asked = np.asarray([1, *again], np.int32)
    told = evolve(last, index=len(calls), parent=None, kept=0, prompt_ids=asked, output_ids=output, untrained=None)
    return (*calls, evolve(told, logprobs=(-output / 1024).astype(np.float32)))


def made_up_episode(random: Random, repeat: int, tracker: Any) -> Episode:
    calls = calls_with_a_history_told_again(random)
    blank = Episode(id=f"train/1/t/{repeat}", task=Task(task_id="t"), step=1, repeat=repeat, calls=calls)
    if random.random() < 0.2:
        lost = sum(len(call.output_ids) for call in calls)
        return evolve(blank, failures=(Failure(reason="timeout"),), untrained={"failed": lost} if lost else {})
    identity = EpisodeIdentity(episode_id=blank.id, task_id="t", repeat=repeat)
    tracked = limit_samples(tracker.samples(calls, identity), random.choice((0, 1, 20)), seed=1)
    episode = evolve(blank, output=WorkflowOutput(), samples=tuple(tracked.samples), untrained=dict(tracked.untrained))
    judge_fails = random.random() < 0.2
    return episode.with_verdict(Unjudged(reason="judge_error") if judge_fails else Verdict(random.choice((0.0, 1.0))))


@pytest.mark.parametrize("name", TRACKERS)
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_the_waterfall_adds_up_and_says_what_the_metrics_say(name: str, seed: int) -> None:
    random = Random(seed)
    groups = [
        Group(
            task=Task(task_id="t"),
            step=1,
            split="train",
            episodes=tuple(made_up_episode(random, repeat, TRACKERS[name]()) for repeat in range(3)),
        )
    ]
    rows = compute_advantages(groups, DrGrpo())
    found, metrics = build_waterfall(groups, rows), compute_rollout_metrics(groups, rows)
    assert found.unexplained == 0
    assert found.sampled == metrics["tokens/generated"]
    assert found.trainable == metrics["signal/tokens_trainable"]
    assert found.with_signal == metrics["signal/tokens_nonzero_advantage"]
    lost = {f"signal/lost/tokens_{reason}": count for reason, count in found.untrained.items()}
    assert lost == {key: count for key, count in metrics.items() if key.startswith("signal/lost/tokens_")}
    unrewarded = [sample.trained for e in groups[0].episodes if e.reward is None for sample in e.samples]
    assert sum(found.unrewarded.values()) == sum(unrewarded)
    assert found.sampled - sum(found.untrained.values()) - sum(unrewarded) - found.without_signal == found.with_signal
    # What a person reads says the same: each `=` is the number before it less what is taken off.
    kept = 0
    for line in found.lines():
        sign, number = line[:1], int(line[1:].split()[0].replace(",", ""))
        assert sign != "=" or number == kept, "\n".join(found.lines())
        kept = kept - number if sign == "-" else number


@pytest.mark.parametrize("name", TRACKERS)
@settings(max_examples=60)
@given(seed=st.integers(0, 2**32))
@example(seed=24777)  # only the end of an answer is trained in the place where another prompt repeats it
def test_exactly_what_samples_train_is_shown_as_trained(name: str, seed: int) -> None:
    episode = made_up_episode(Random(seed), 0, TRACKERS[name]())
    shown = mark_trained_tokens(episode)
    ids = [number for call in episode.calls for number in call.output_ids[shown[call.index]].tolist()]
    assert sorted(number for sample in episode.samples for number in sample.ids[sample.mask].tolist()) == sorted(ids)


@pytest.mark.parametrize("name", TRACKERS)
@settings(max_examples=60)
@given(seed=st.integers(0, 2**32))
@example(seed=24777)
def test_each_trained_token_is_found_in_one_call_with_its_id_and_log_probability(name: str, seed: int) -> None:
    made_up = made_up_episode(Random(seed), 0, TRACKERS[name]())
    calls = index_calls(made_up.calls)
    taken = set()
    for sample, stretches in zip(made_up.samples, find_trained_stretches(made_up), strict=True):
        places = [place for one in stretches for place in range(one.place, one.place + one.count)]
        origins = [(one.call, position) for one in stretches for position in range(one.start, one.start + one.count)]
        assert places == np.flatnonzero(sample.mask).tolist()
        assert [calls[call].output_ids[position] for call, position in origins] == sample.ids[places].tolist()
        assert [calls[call].logprobs[position] for call, position in origins] == sample.logprobs[places].tolist()
        assert taken.isdisjoint(origins)
        taken.update(origins)


def test_trained_tokens_that_no_call_sampled_keep_their_place_in_the_sample() -> None:
    (found,) = find_trained_stretches(episode())
    assert [(one.call, one.start, one.count) for one in found] == [(NO_CALL, 1, 3)]


def test_tokens_that_a_tracker_forgets_are_told() -> None:
    episode = made_up_episode(Random(3), 0, TimelineTracker())
    forgetful = evolve(episode, output=WorkflowOutput(), samples=(), untrained={}, verdict=Verdict(1.0))
    found = build_waterfall([Group(task=Task(), step=1, split="train", episodes=(forgetful,))], [])
    assert found.unexplained == found.sampled
    assert f"- {found.sampled}  not accounted for by the tracker" in list(found.lines())
