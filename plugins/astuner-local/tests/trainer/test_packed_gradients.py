from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astuner.contract.schema import Sample
from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.packing import micro_batches, pack
from astuner_local.trainer.pass_size import PassLimit, PassSize
from astuner_local.trainer.rows import TrainRow
from astuner_local.trainer.trainer import Trainer


@pytest.mark.parametrize("share", [True, False], ids=["shared", "unshared"])
@pytest.mark.parametrize(
    ("family", "kv_heads", "tied"), [("qwen2", 4, True), ("qwen2", 2, False), ("qwen3", 2, True), ("llama", 1, False)]
)
def test_gradient_equals_that_of_the_plain_padded_forward(
    family, kv_heads, tied, share, make_model, make_groups, gradients, expected_gradient, difference
):
    model, rows = make_model(family, kv_heads=kv_heads, tied=tied), make_groups()
    tokens = sum(row.sample.trained for row in rows)
    (found,) = gradients(model, rows, share_prefixes=share)
    assert difference(found, expected_gradient(model, rows, [1 / tokens] * len(rows))) < 1e-5


@pytest.mark.parametrize("kv_heads", [4, 2])
def test_branches_that_attend_under_one_mask_get_the_same_gradient(
    kv_heads, make_model, make_row, gradients, expected_gradient, difference, monkeypatch
):
    """As long passes do: here each pass counts as long."""
    monkeypatch.setattr("astuner_local.trainer.pass_size._LONG", 1)
    prompt = [*range(10, 50)]
    ends = ([1], [1, 2], [1, 3, 4], [5], [1, 3, 4])
    rows = [
        make_row([*prompt, group, *end], trained=[len(prompt) + len(end)], group=str(group), advantage=0.5 - number)
        for group in (51, 52)
        for number, end in enumerate(ends)
    ]
    model = make_model("qwen3", kv_heads=kv_heads)
    for limit in (10**6, 70):
        (found,) = gradients(model, rows, micro_batch_tokens=limit)
        assert difference(found, expected_gradient(model, rows, [1 / len(rows)] * len(rows))) < 1e-5


def test_which_passes_attend_under_one_mask(make_row):
    def measure(prompt: int, own: int) -> PassSize:
        rows = [
            make_row([*([7] * prompt), *([answer] * own)], trained=[prompt + own - 1], episode=str(answer)) for answer in range(8)
        ]
        return pack(rows, share_prefixes=True).measure()

    assert measure(1000, 4).one_mask
    assert not measure(100, 4).one_mask, "short"
    assert not measure(100, 400).one_mask, "a row would be compared with all the others' own tokens"


@pytest.mark.parametrize("share", [True, False], ids=["shared", "unshared"])
def test_tokens_of_a_shared_prefix_get_their_gradient_from_the_row_that_trains_them(
    share, make_model, make_row, gradients, expected_gradient, difference
):
    prompt, first_turn, observation = [5, 6, 7, 8], [11, 12, 13], [9, 9, 10]
    ids = prompt + first_turn + observation
    rows = [
        # Row 0 goes on after row 2's stream and trains only the end; row 2 trains the turn that both contain.
        make_row([*ids, 20, 21], trained=[10, 11], advantage=0.7, episode="a"),
        make_row([*ids, 30], trained=[10], advantage=-1.3, episode="a"),
        make_row(prompt + first_turn, trained=[4, 5, 6], advantage=0.9, episode="a"),
        make_row([*prompt, 11, 40, 41], trained=[4, 5, 6], advantage=-0.4, episode="b"),
    ]
    model = make_model()
    (found,) = gradients(model, rows, share_prefixes=share, loss_agg_mode="seq-mean-token-sum")
    assert difference(found, expected_gradient(model, rows, [1 / 2] * 4)) < 1e-5


def test_rows_that_are_equal_id_for_id_each_count(make_model, make_row, gradients, expected_gradient, difference):
    rows = [make_row([3, 4, 5, 6], trained=[2, 3], advantage=a, episode=str(a)) for a in (1.0, -0.25)]
    model = make_model()
    (found,) = gradients(model, rows)
    assert difference(found, expected_gradient(model, rows, [1 / 4] * 2)) < 1e-5


@pytest.mark.parametrize(
    "limit", [{"micro_batch_tokens": 60}, {"micro_batch_tokens": 1}, {"logits_per_pass": 200}, {"logits_per_pass": 1}], ids=str
)
def test_limits_on_memory_do_not_change_the_gradient(limit, make_model, make_groups, gradients, difference):
    model, rows = make_model(), make_groups()
    (whole,) = gradients(model, rows)
    (cut,) = gradients(model, rows, **limit)
    assert difference(cut, whole) < 1e-5


def test_a_prefix_that_a_group_shares_is_computed_once(make_model, make_row):
    rows = [make_row([*range(10, 30), answer, 5, 6], trained=[20, 22], episode=str(answer)) for answer in range(8)]
    metrics = Trainer(make_model(), TrainerOptions(lr=0.0)).update(rows, 1)
    assert metrics["tokens/computed"] == 20 + 8 * 2


def test_tokens_after_the_last_trained_one_are_not_computed(make_model, make_row, gradients, expected_gradient, difference):
    rows = [make_row([3, 4, 5, 6, *tail], trained=[2, 3], episode=str(number)) for number, tail in enumerate(([], [7, 8]))]
    assert Trainer(make_model(), TrainerOptions(lr=0.0)).update(rows, 1)["tokens/computed"] == 3
    model = make_model()
    (found,) = gradients(model, rows)
    assert difference(found, expected_gradient(model, rows, [1 / 4] * 2)) < 1e-5


def test_rows_of_different_groups_share_nothing(make_model, make_row):
    rows = [make_row([*range(10, 30), 1], trained=[20], group=group) for group in "ab"]
    metrics = Trainer(make_model(), TrainerOptions(lr=0.0)).update(rows, 1)
    assert metrics["tokens/computed"] == 2 * 20


streams = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=7), min_size=1, max_size=9)
few_streams = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=7), min_size=1, max_size=6)


@given(streams, st.integers(1, 40), st.booleans())
@settings(max_examples=200)
def test_every_row_finds_its_ids_on_its_path_and_every_token_is_owned_once(found, budget, share):
    rows = [_row(ids, number) for number, ids in enumerate(found)]
    limit = PassLimit(tokens=budget, mask_entries=3)
    batches = micro_batches(rows, limit=limit, share_prefixes=share)
    assert sorted(i for batch in batches for i in batch) == list(range(len(rows)))
    for batch in batches:
        packed = pack([rows[i] for i in batch], share_prefixes=share)
        owned = np.concatenate([np.empty(0, np.int64), *(span.path[span.start :] for span in packed.spans)])
        assert sorted(owned.tolist()) == list(range(len(packed.ids)))
        for span in packed.spans:
            assert packed.positions[span.path].tolist() == list(range(len(span.path)))
        targets = [int(t) for i in batch for t in rows[i].sample.ids[1:]]
        assert packed.targets.tolist() == targets
        before = [int(t) for i in batch for t in rows[i].sample.ids[:-1]]
        assert packed.ids[packed.predictors].tolist() == before
        assert len(batch) == 1 or packed.measure().count(limit) <= budget


@given(streams)
@settings(max_examples=200)
def test_a_group_is_packed_into_as_many_tokens_as_it_has_distinct_prefixes(found):
    rows = [_row(ids, number, group="one") for number, ids in enumerate(found)]
    (batch,) = micro_batches(rows, limit=PassLimit(tokens=10**6, mask_entries=1), share_prefixes=True)
    prefixes = {tuple(ids[: n + 1]) for ids in found for n in range(len(ids) - 1)}
    assert len(pack([rows[i] for i in batch], share_prefixes=True).ids) == len(prefixes)


def test_a_long_prefix_is_computed_once_where_the_padded_rows_would_not_fit(make_row):
    rows = [make_row([*range(100), answer], trained=[100], episode=str(answer)) for answer in range(8)]
    assert len(micro_batches(rows, limit=PassLimit(tokens=300, mask_entries=1000), share_prefixes=True)) == 1


def test_a_mask_counts_by_its_memory(make_row):
    rows = [make_row([*range(100), *([answer] * 10)], trained=[109], episode=str(answer)) for answer in range(8)]
    one_token_each = PassLimit(tokens=300, mask_entries=1)
    assert len(micro_batches(rows, limit=one_token_each, share_prefixes=True)) == 8


def test_a_group_that_does_not_fit_is_cut_between_its_branches(make_row):
    """Filled in order, the first pass would take a row of the second branch too, and that branch be computed twice."""
    first, second = [[1, *([branch] * 50)] for branch in (2, 3)]
    rows = [make_row([*branch, end, 0], trained=[52], episode=str(end)) for branch in (first, second) for end in range(3)]
    batches = micro_batches(rows, limit=PassLimit(tokens=105, mask_entries=10**6), share_prefixes=True)
    assert [sorted(batch) for batch in batches] == [[0, 1, 2], [3, 4, 5]]


@given(few_streams, st.integers(1, 25))
@settings(max_examples=100)
def test_no_other_cut_computes_fewer_tokens(found, budget):
    rows = [_row(ids, number, group="one") for number, ids in enumerate(found)]
    limit = PassLimit(tokens=budget, mask_entries=10**6)
    batches = micro_batches(rows, limit=limit, share_prefixes=True)
    order = sorted(range(len(rows)), key=lambda i: found[i])
    least = min(sum(_count_prefixes([found[i] for i in piece]) for piece in cut) for cut in _list_cuts(order, rows, limit))
    assert sum(_count_prefixes([found[i] for i in batch]) for batch in batches) <= least


def _list_cuts(order: list[int], rows: list[TrainRow], limit: PassLimit) -> Iterator[list[list[int]]]:
    """Yield every way to cut an order into pieces of one row, or of more that fit."""
    if not order:
        yield []
    for end in range(1, len(order) + 1):
        if end == 1 or pack([rows[i] for i in order[:end]], share_prefixes=True).measure().count(limit) <= limit.tokens:
            yield from ([order[:end], *rest] for rest in _list_cuts(order[end:], rows, limit))


def _count_prefixes(found: list[list[int]]) -> int:
    return len({tuple(ids[: n + 1]) for ids in found for n in range(len(ids) - 1)})


def _row(ids: list[int], number: int, group: str | None = None) -> TrainRow:
    mask = np.ones(len(ids), np.bool_)
    mask[0] = False
    sample = Sample(
        episode_id=str(number),
        task_id="t",
        repeat=number,
        agent="agent",
        ids=np.array(ids, np.int32),
        mask=mask,
        logprobs=np.zeros(len(ids), np.float32),
        calls=(0,),
    )
    return TrainRow(sample=sample, advantage=1.0, group=group or str(number % 2))
