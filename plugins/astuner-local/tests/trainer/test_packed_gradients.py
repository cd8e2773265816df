from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astuner.contract.schema import Sample
from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.packing import micro_batches, pack
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
    rows = [make_row([*range(10, 30), answer], trained=[20], episode=str(answer)) for answer in range(8)]
    metrics = Trainer(make_model(), TrainerOptions(lr=0.0)).update(rows, 1)
    assert metrics["tokens/computed"] == 20 + 8


def test_rows_of_different_groups_share_nothing(make_model, make_row):
    rows = [make_row([*range(10, 30), 1], trained=[20], group=group) for group in "ab"]
    metrics = Trainer(make_model(), TrainerOptions(lr=0.0)).update(rows, 1)
    assert metrics["tokens/computed"] == 2 * 21


streams = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=7), min_size=1, max_size=9)


@given(streams, st.integers(1, 40), st.booleans())
@settings(max_examples=200)
def test_every_row_finds_its_ids_on_its_path_and_every_token_is_owned_once(found, budget, share):
    rows = [_row(ids, number) for number, ids in enumerate(found)]
    batches = micro_batches(rows, budget=budget, share_prefixes=share)
    assert sorted(i for batch in batches for i in batch) == list(range(len(rows)))
    for batch in batches:
        packed = pack([rows[i] for i in batch], share_prefixes=share)
        owned = np.concatenate([span.path[span.start :] for span in packed.spans])
        assert sorted(owned.tolist()) == list(range(len(packed.ids)))
        for span in packed.spans:
            assert packed.positions[span.path].tolist() == list(range(len(span.path)))
        targets = [int(t) for i in batch for t in rows[i].sample.ids[1:]]
        assert packed.targets.tolist() == targets
        before = [int(t) for i in batch for t in rows[i].sample.ids[:-1]]
        assert packed.ids[packed.predictors].tolist() == before
        assert len(batch) == 1 or len(batch) * max(len(rows[i].sample.ids) for i in batch) <= budget


@given(streams)
@settings(max_examples=200)
def test_a_group_is_packed_into_as_many_tokens_as_it_has_distinct_prefixes(found):
    rows = [_row(ids, number, group="one") for number, ids in enumerate(found)]
    (batch,) = micro_batches(rows, budget=10**6, share_prefixes=True)
    prefixes = {tuple(ids[: n + 1]) for ids in found for n in range(len(ids))}
    assert len(pack([rows[i] for i in batch], share_prefixes=True).ids) == len(prefixes)


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
