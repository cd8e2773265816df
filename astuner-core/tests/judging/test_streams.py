"""What estimators of streams see of episodes, and what becomes of what they say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from attrs import evolve

from astuner.contract.errors import PluginError
from astuner.contract.protocols import EstimatorTraits, Outcome, Streams
from astuner.episodes.judging.advantages import WeightedSample, compute_advantages
from astuner_devkit.episodes import episode, group, sample


class Says:
    """Answers each outcome as the test wants, and keeps what it saw."""

    def __init__(self, say: Callable[[Outcome], Streams], **traits: Any) -> None:
        self.say, self.seen = say, list[Outcome]()
        self.traits = EstimatorTraits(gives_streams=True, **{"beyond_advantages": True, **traits})

    def signal(self, groups: Sequence[Sequence[Outcome]]) -> Sequence[Sequence[Streams]]:
        self.seen += [one for siblings in groups for one in siblings]
        return [[self.say(one) for one in siblings] for siblings in groups]


def weigh(say: Callable[[Outcome], Streams], *episodes: Any, traits: Any = None, **given: Any) -> list[WeightedSample]:
    return compute_advantages([group(*episodes)], Says(say, **(traits or {})), **given)


def look(*episodes: Any, **given: Any) -> list[Outcome]:
    estimator = Says(lambda _: Streams())
    compute_advantages([group(*episodes)], estimator, **given)
    return estimator.seen


def test_each_agent_of_a_rewarded_episode_is_an_outcome():
    seen = look(episode(0, 1.0, agents=("solver", "critic"), rewards={"critic": -1.0}), episode(1, None), episode(2, 0.5))
    assert [(one.episode.repeat, one.agent, one.reward, one.tokens) for one in seen] == [
        (0, "solver", 1.0, 3),
        (0, "critic", -1.0, 3),
        (2, "agent", 0.5, 3),
    ]
    assert seen[0].logprobs == pytest.approx([-0.1] * 3)


def test_penalties_are_taken_off_the_reward_and_off_what_follows_each_token():
    played = episode(0, 1.0)
    (seen,) = look(played, penalties={(played.id, "agent"): np.array([0.1, 0.2, 0.3])})
    assert seen.reward == pytest.approx(0.4)
    assert seen.returns == pytest.approx([0.4, 0.5, 0.7])


def of_two_calls(lengths: tuple[int, int], mask: list[bool]) -> Any:
    played = episode(0, 1.0)
    calls = tuple(
        evolve(played.calls[0], index=index, output_ids=np.arange(length, dtype=np.int32))
        for index, length in zip((0, 4), lengths, strict=True)
    )
    size = len(mask)
    row = evolve(
        sample(played.id),
        ids=np.arange(size, dtype=np.int32),
        mask=np.array(mask),
        logprobs=np.zeros(size, np.float32),
        calls=(0, 4),
    )
    return evolve(played, calls=calls, samples=(row,))


def test_each_token_knows_its_call():
    (seen,) = look(of_two_calls((2, 1), [False, True, True, False, True]))
    assert seen.calls.tolist() == [0, 0, 4]


def test_calls_that_follow_each_other_at_once_are_told_apart():
    (seen,) = look(of_two_calls((2, 1), [False, True, True, True]))
    assert seen.calls.tolist() == [0, 0, 4]


def test_where_a_part_of_a_call_is_trained_stretches_tell_the_calls():
    (seen,) = look(of_two_calls((5, 5), [False, True, True, False, False, True]))
    assert seen.calls.tolist() == [0, 0, 4]


def test_a_sample_that_is_masked_whole_has_no_token():
    (seen,) = look(of_two_calls((2, 1), [False] * 4))
    assert (seen.tokens, len(seen.logprobs), len(seen.returns)) == (0, 0, 0)


def test_tokens_of_several_rows_are_one_outcome_and_each_row_gets_its_own():
    def count(one: Outcome) -> Streams:
        return Streams(advantages=np.arange(6.0), likelihood=np.arange(6.0) > 3)

    first, second = weigh(count, episode(0, 1.0, rows=2))
    assert first.spread().tolist() == [0, 1, 2]
    assert second.spread().tolist() == [3, 4, 5]
    assert [np.asarray(row.likelihood).tolist() for row in (first, second)] == [[0, 0, 0], [0, 1, 1]]
    assert (first.live_tokens, second.live_tokens) == (2, 3)
    assert second.advantage == 4


def test_a_number_is_that_of_all_tokens_and_0_is_nothing():
    (row,) = weigh(lambda _: Streams(advantages=2.0, likelihood=0.0, divergence=np.zeros(3)), episode(0, 1.0))
    assert (row.advantage, row.token_advantages, row.others) == (2.0, None, {})


def test_a_divergence_comes_with_the_log_probabilities_of_its_reference():
    played = episode(0, 1.0)
    scores = {"teacher": {(played.id, "agent"): np.array([-1.0, -2.0, -3.0])}}
    traits = {"scored_by": ("teacher",)}
    (row,) = weigh(lambda _: Streams(divergence=0.5, reference="teacher"), played, traits=traits, scores=scores)
    assert {name: values.tolist() for name, values in row.others.items()} == {
        "divergence": [0.5] * 3,
        "reference": [-1.0, -2.0, -3.0],
    }
    assert (row.advantage, row.live_tokens) == (0.0, 3)
    (row,) = weigh(lambda _: Streams(divergence=0.5, reference="sampler"), played)
    assert row.others["reference"] == pytest.approx([-0.1] * 3)


def test_where_no_model_scores_the_sampler_stands_in():
    estimator = Says(lambda _: Streams(), scored_by=("teacher",))
    compute_advantages([group(episode(0, 1.0))], estimator)
    assert estimator.seen[0].scores["teacher"].tolist() == estimator.seen[0].logprobs.tolist()


@pytest.mark.parametrize(
    ("streams", "traits", "said"),
    [
        (Streams(advantages=np.ones(2)), {}, r"Says.signal gave an array of shape \[2\] as advantages for 3 trained tokens"),
        (Streams(likelihood=float("inf")), {}, "a number that is not finite as likelihood"),
        (Streams(divergence=1.0), {}, "named the reference ''; there are: sampler"),
        (Streams(likelihood=1.0), {"beyond_advantages": False}, "its traits must say beyond_advantages=True"),
    ],
)
def test_streams_that_are_wrong_are_refused(streams: Streams, traits: Any, said: str):
    with pytest.raises(PluginError, match=said):
        weigh(lambda _: streams, episode(0, 1.0), traits=traits)


def test_one_for_each_outcome_is_wanted():
    estimator = Says(lambda _: Streams())
    estimator.signal = lambda groups: [siblings[1:] for siblings in groups]  # type: ignore[method-assign, misc]
    with pytest.raises(PluginError, match="one Streams per outcome"):
        compute_advantages([group(episode(0, 1.0))], estimator)
