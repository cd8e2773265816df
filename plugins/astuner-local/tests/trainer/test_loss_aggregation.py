from __future__ import annotations

import pytest
from attrs import evolve

from astuner.runs.training.minibatches import compute_token_shares, cut_mini_batches
from astuner_local.trainer.options import AGGREGATIONS

MODES = pytest.mark.parametrize("mode", AGGREGATIONS)
NORM = 50


@pytest.fixture
def episodes(make_row):
    """Two groups; episode `b` has two turns with an observation between them, and another agent speaks in `c`."""
    return [
        make_row([5, 6, 7, 20, 21, 22], trained=[3, 4, 5], advantage=0.8, group="g", episode="a"),
        make_row([5, 6, 7, 30, 31, 8, 9, 32, 33, 34], trained=[3, 4, 7, 8, 9], advantage=-1.1, group="g", episode="b"),
        make_row([1, 2, 40], trained=[2], advantage=0.6, group="h", episode="c"),
        make_row([1, 3, 41, 42], trained=[2, 3], advantage=-0.6, group="h", episode="c", agent="critic"),
    ]


def _split(row, at):
    """Give the trained positions before `at` to one row and the others to a second, as a tracker does that splits an episode."""
    early, late = row.sample.mask.copy(), row.sample.mask.copy()
    early[at:] = False
    late[:at] = False
    first = evolve(row.sample, ids=row.sample.ids[:at], mask=early[:at], logprobs=row.sample.logprobs[:at])
    return [evolve(row, sample=first), evolve(row, sample=evolve(row.sample, mask=late))]


@MODES
@pytest.mark.parametrize("budget", [8192, 12], ids=["one pass", "several passes"])
def test_splitting_an_episode_into_rows_leaves_the_gradient_unchanged(mode, budget, episodes, make_model, gradients, difference):
    a, b, c, d = episodes
    options = {"loss_agg_mode": mode, "max_response_length": NORM, "micro_batch_tokens": budget}
    model = make_model()
    (whole,) = gradients(model, [a, b, c, d], **options)
    (split,) = gradients(model, [a, *_split(b, 7), c, d], **options)
    assert difference(split, whole) < 1e-6


FACTORS = {
    "token-mean": [1 / 11] * 4,
    "seq-mean-token-mean": [1 / (4 * 3), 1 / (4 * 5), 1 / (4 * 1), 1 / (4 * 2)],
    "seq-mean-token-sum": [1 / 4] * 4,
    "seq-mean-token-sum-norm": [1 / (4 * NORM)] * 4,
}


@MODES
@pytest.mark.parametrize("budget", [8192, 12], ids=["one pass", "several passes"])
def test_aggregation_weighs_tokens_as_its_name_says(mode, budget, episodes, make_model, gradients, expected_gradient, difference):
    model = make_model()
    (found,) = gradients(model, episodes, loss_agg_mode=mode, max_response_length=NORM, micro_batch_tokens=budget)
    assert difference(found, expected_gradient(model, episodes, FACTORS[mode])) < 1e-5


@MODES
def test_rows_without_advantage_are_left_out_and_still_counted_in_the_denominator(
    mode, episodes, make_model, gradients, expected_gradient, difference
):
    rows = [evolve(row, advantage=0.0) if row.group == "h" else row for row in episodes]
    model = make_model()
    (found,) = gradients(model, rows, loss_agg_mode=mode, max_response_length=NORM)
    assert difference(found, expected_gradient(model, rows, FACTORS[mode])) < 1e-5


def test_a_sequence_that_is_masked_whole_counts_in_the_means_over_sequences(make_row):
    rows = [make_row([1, 2, 3, 4], trained=[1, 2, 3], episode="a"), make_row([1, 2, 3], trained=[], episode="b")]
    found = {mode: compute_token_shares(rows, mode, NORM) for mode in AGGREGATIONS}
    assert {mode: shares[0] for mode, shares in found.items()} == {
        "token-mean": 1 / 3,
        "seq-mean-token-mean": 1 / 6,
        "seq-mean-token-sum": 1 / 2,
        "seq-mean-token-sum-norm": 1 / (2 * NORM),
    }


@MODES
def test_a_mini_batch_has_denominators_of_its_own(mode, episodes, make_model, gradients, difference):
    options = {"loss_agg_mode": mode, "max_response_length": NORM}
    model = make_model()
    found = gradients(model, episodes, mini_batch_num=2, **options)
    alone = [gradients(model, part, **options)[0] for part in (episodes[:2], episodes[2:])]
    assert [difference(one, other) < 1e-6 for one, other in zip(found, alone, strict=True)] == [True, True]


def test_mini_batches_keep_groups_whole(make_groups):
    parts = cut_mini_batches(make_groups(groups=5, repeats=3), 2)
    assert [sorted({row.group for row in part}) for part in parts] == [["g0", "g1", "g2"], ["g3", "g4"]]


def test_mini_batches_keep_episodes_whole_when_there_are_fewer_groups(make_row):
    rows = [make_row([1, 2], trained=[1], episode=episode) for episode in "aabbbbc"]
    assert [[row.sample.episode_id for row in part] for part in cut_mini_batches(rows, 2)] == [list("aabbbb"), ["c"]]


def test_there_are_never_more_mini_batches_than_episodes(make_row):
    assert len(cut_mini_batches([make_row([1, 2], trained=[1], episode=e) for e in "ab"], 8)) == 2
