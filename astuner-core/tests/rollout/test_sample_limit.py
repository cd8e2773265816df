from __future__ import annotations

from astuner.contract.protocols import Tracked
from astuner.episodes.rollout.sample_limit import SampleLimit, limit_samples
from astuner_devkit.episodes import sample


def tracked(*trained: int) -> Tracked:
    return Tracked(samples=[sample("e", trained=n) for n in trained], untrained={"frozen_agent": 4}, notices={"a": "b"})


def test_the_samples_that_stay_keep_their_order_and_the_others_are_counted() -> None:
    kept = limit_samples(tracked(2, 5, 1, 6, 7), 3, seed=1)
    lengths = [sample.trained for sample in kept.samples]
    assert lengths == sorted(lengths, key=[2, 5, 1, 6, 7].index)
    assert kept.untrained == {"frozen_agent": 4, "over_sample_limit": 21 - sum(lengths)}
    assert kept.notices == {"a": "b"}


def test_every_length_stays_about_as_often() -> None:
    seen = [limit_samples(tracked(1, 2, 3, 40), 1, seed=seed).samples[0].trained for seed in range(400)]
    assert all(70 <= seen.count(length) <= 130 for length in (1, 2, 3, 40))


def test_the_choice_depends_on_the_seed_alone() -> None:
    given = tracked(*range(1, 40))
    assert limit_samples(given, 5, seed=3).samples == limit_samples(given, 5, seed=3).samples
    assert limit_samples(given, 5, seed=3).samples != limit_samples(given, 5, seed=4).samples


def test_within_the_limit_nothing_changes() -> None:
    given = tracked(1, 2)
    assert limit_samples(given, 2, seed=1) is given


def test_what_was_left_out_is_reported_once_with_the_key_to_raise() -> None:
    limit = SampleLimit(1)
    limit.apply(tracked(5), 1)
    assert list(limit.take_notices()) == []
    limit.apply(tracked(2, 2, 2), 1)
    limit.apply(tracked(4, 4), 1)
    [notice] = limit.take_notices()
    assert notice.startswith("rollout.multi_turn.max_sample_per_task: 1 samples")
    assert "3 samples (8 tokens) of 2 episodes were left out" in notice
    limit.apply(tracked(2, 5, 1), 1)
    assert list(limit.take_notices()) == []
