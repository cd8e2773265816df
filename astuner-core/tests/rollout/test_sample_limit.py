from __future__ import annotations

from astuner.protocols import Tracked
from astuner.rollout.sample_limit import SampleLimit, limit_samples
from astuner.testing.episodes import sample


def tracked(*trained: int) -> Tracked:
    return Tracked(samples=[sample("e", trained=n) for n in trained], untrained={"frozen_agent": 4}, notices={"a": "b"})


def test_the_samples_with_the_most_trained_tokens_stay_in_their_order() -> None:
    kept = limit_samples(tracked(2, 5, 1, 5, 7), 3)
    assert [sample.trained for sample in kept.samples] == [5, 5, 7]
    assert kept.untrained == {"frozen_agent": 4, "over_sample_limit": 3}
    assert kept.notices == {"a": "b"}


def test_of_equals_the_earlier_ones_stay() -> None:
    given = tracked(3, 3, 3)
    assert limit_samples(given, 2).samples == given.samples[:2]


def test_within_the_limit_nothing_changes() -> None:
    given = tracked(1, 2)
    assert limit_samples(given, 2) is given


def test_what_was_left_out_is_said_once_with_the_key_to_raise() -> None:
    limit = SampleLimit(1)
    limit.apply(tracked(5))
    assert limit.take_notice() is None
    limit.apply(tracked(2, 5, 1))
    limit.apply(tracked(2, 4))
    notice = limit.take_notice() or ""
    assert notice.startswith("rollout.multi_turn.max_sample_per_task: 1 samples")
    assert "3 samples (5 tokens) of 2 episodes were left out" in notice
    limit.apply(tracked(2, 5, 1))
    assert limit.take_notice() is None
