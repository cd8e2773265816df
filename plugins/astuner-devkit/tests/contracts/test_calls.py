"""The made-up token trees hold every shape that a tracker has to cope with."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from astuner.contract.schema import Call
from astuner.contract.token_streams import prompt_length, stream_ids, stream_length
from astuner_devkit.calls import AGENTS, FIRST_SAMPLED, REASONS, find_origins, make_up_calls

EPISODES = [make_up_calls(Random(seed)) for seed in range(300)]
CALLS = [(calls, call) for calls in EPISODES for call in calls]


def parent_of(calls: tuple[Call, ...], call: Call) -> Call | None:
    return None if call.parent is None else calls[call.parent]


def test_one_seed_gives_one_tree():
    one, other = make_up_calls(Random(5)), make_up_calls(Random(5))
    assert [call.prompt_ids.tolist() for call in one] == [call.prompt_ids.tolist() for call in other]


@pytest.mark.parametrize("calls", EPISODES[:50])
def test_every_sampled_id_of_an_episode_is_another_one(calls: tuple[Call, ...]):
    sampled = [number for call in calls for number in call.output_ids.tolist()]
    assert len(set(sampled)) == len(sampled)
    assert all(number >= FIRST_SAMPLED for number in sampled)


def test_no_fed_id_looks_like_a_sampled_one():
    assert all(number < FIRST_SAMPLED for _, call in CALLS for number in call.prompt_ids.tolist())


def test_every_id_has_a_logprob_of_its_own():
    assert all(len(np.unique(call.logprobs)) == len(call.output_ids) for _, call in CALLS)


def test_a_call_continues_an_earlier_one_of_its_agent():
    continued = [(parent_of(calls, call), call) for calls, call in CALLS if call.parent is not None]
    assert all(parent.index < call.index and parent.agent == call.agent for parent, call in continued)
    assert all(0 < call.kept <= stream_length(parent) for parent, call in continued)


@pytest.mark.parametrize(
    "shape",
    [
        lambda parent, call: parent is None,
        lambda parent, call: parent is not None and call.kept == stream_length(parent) and len(parent.output_ids) > 0,
        lambda parent, call: parent is not None and call.kept == prompt_length(parent) and not len(call.prompt_ids),
        lambda parent, call: parent is not None and prompt_length(parent) < call.kept < stream_length(parent),
        lambda parent, call: parent is not None and call.kept < parent.kept,
        lambda parent, call: not len(call.output_ids),
    ],
    ids=["root", "turn", "retry", "branch inside an answer", "branch before the parent's own ids", "empty output"],
)
def test_every_shape_of_a_call_comes_up(shape):
    assert any(shape(parent_of(calls, call), call) for calls, call in CALLS)


def test_every_reason_and_agent_comes_up():
    assert {call.untrained for _, call in CALLS} == {None, *REASONS}
    assert {call.agent for _, call in CALLS} == set(AGENTS)


def test_an_episode_may_be_a_single_call():
    assert min(map(len, EPISODES)) == 1


def test_an_origin_says_under_what_an_id_was_sampled():
    calls = EPISODES[7]
    for number, origin in find_origins(calls).items():
        stream = stream_ids(calls, origin.call.index)
        assert stream[len(origin.prefix)] == number
        assert stream[: len(origin.prefix)].tolist() == origin.prefix.tolist()
        assert origin.logprob == -number / 1024
