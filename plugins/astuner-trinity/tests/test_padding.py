"""Rows that are not packed: verl pads them without flash-attention, and no pass is larger than its limit, padding included."""

from __future__ import annotations

import random
import sys
from importlib.util import find_spec
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("trinity")

from tensordict import TensorDict  # noqa: E402
from verl.utils import attention_utils  # noqa: E402
from verl.utils import tensordict_utils as tu  # noqa: E402
from verl.utils.seqlen_balancing import rearrange_micro_batches  # noqa: E402
from verl.workers.engine import utils as passes  # noqa: E402
from verl.workers.engine.utils import prepare_micro_batches  # noqa: E402

from astuner_trinity.trainer import padding  # noqa: E402
from astuner_trinity.trainer.padding import fill_passes, provide_padding, wrap_splitter  # noqa: E402

LIMIT = 16384
random_lengths = random.Random(0)
ONE_IN_TEN_IS_LONG = [random_lengths.choice([120] * 9 + [6000]) for _ in range(256)]
LOG_NORMAL = [int(min(8000, random_lengths.lognormvariate(6.2, 1.0))) + 1 for _ in range(256)]


def make_batch(lengths: list[int], *, packed: bool) -> Any:
    rows = torch.nested.as_nested_tensor([torch.full((length,), row) for row, length in enumerate(lengths)], layout=torch.jagged)
    batch = TensorDict({"input_ids": rows}, batch_size=[len(lengths)])
    tu.assign_non_tensor(batch, use_remove_padding=packed, use_dynamic_bsz=True, max_token_len_per_gpu=LIMIT)
    return batch


def count_padded_tokens(lengths: list[int], rows: list[list[int]]) -> int:
    return max(len(one) * max(lengths[row] for row in one) for one in rows)


@pytest.mark.parametrize("lengths", [ONE_IN_TEN_IS_LONG, LOG_NORMAL])
def test_no_pass_exceeds_the_limit_where_verls_own_does(monkeypatch: pytest.MonkeyPatch, lengths: list[int]) -> None:
    batch = make_batch(lengths, packed=False)
    _, theirs = rearrange_micro_batches(batch, max_token_len=LIMIT)
    assert count_padded_tokens(lengths, theirs) > 5 * LIMIT
    monkeypatch.setattr(passes, "rearrange_micro_batches", wrap_splitter(rearrange_micro_batches))
    parts, ours = prepare_micro_batches(batch)
    assert count_padded_tokens(lengths, ours) <= LIMIT
    assert sorted(row for one in ours for row in one) == list(range(len(lengths)))
    # verl puts the answers back in order by these numbers.
    assert [[int(row[0]) for row in part["input_ids"].unbind()] for part in parts] == ours


def test_packed_rows_are_split_by_verl() -> None:
    batch = make_batch(LOG_NORMAL, packed=True)
    _, theirs = rearrange_micro_batches(batch, max_token_len=LIMIT)
    _, found = wrap_splitter(rearrange_micro_batches)(batch, max_token_len=LIMIT, num_batches_divided_by=None)
    assert found == theirs


def test_every_worker_makes_as_many_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(padding, "_find_most", lambda count, group: 5)
    parts, rows = wrap_splitter(rearrange_micro_batches)(make_batch([3] * 7, packed=False), LIMIT, dp_group="a group")
    assert len(parts) == len(rows) == 5
    assert sorted(row for one in rows for row in one) == list(range(7))


@settings(max_examples=100, deadline=None)
@given(lengths=st.lists(st.integers(1, 50), min_size=1, max_size=40), limit=st.integers(1, 200), least=st.integers(1, 50))
def test_passes_hold_every_row_once_and_no_more_than_fits(lengths: list[int], limit: int, least: int) -> None:
    found = fill_passes(lengths, limit, least)
    assert sorted(row for one in found for row in one) == list(range(len(lengths)))
    assert all(len(one) == 1 or len(one) * max(lengths[row] for row in one) <= limit for one in found)
    assert min(least, len(lengths)) <= len(found)
    assert all(found)


@pytest.fixture
def without_flash_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_utils, "_get_attention_functions", attention_utils._get_attention_functions)
    monkeypatch.setattr(padding, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "flash_attn", None)


@pytest.mark.usefixtures("without_flash_attention")
def test_rows_are_unpadded_and_padded_without_flash_attention() -> None:
    provide_padding()
    ids = torch.arange(8).reshape(2, 4)
    mask = torch.tensor([[0, 1, 1, 1], [1, 1, 0, 0]])
    flat, indices, offsets, longest, _ = attention_utils.unpad_input(ids.unsqueeze(-1), mask)
    assert (flat.squeeze(-1).tolist(), offsets.tolist(), longest) == ([1, 2, 3, 4, 5], [0, 3, 5], 3)
    back = attention_utils.pad_input(flat, indices, 2, 4).squeeze(-1)
    assert back.tolist() == (ids * mask).tolist()
    assert attention_utils.index_first_axis(torch.arange(6.0).reshape(3, 2), torch.tensor([2, 0])).tolist() == [[4, 5], [0, 1]]
    assert attention_utils.rearrange(ids, "b s -> (b s)").tolist() == list(range(8))


@pytest.mark.usefixtures("without_flash_attention")
def test_trinity_converts_a_batch_without_flash_attention() -> None:
    """It does so in the trainer's process, before each update and each pass of the reference."""
    from trinity.trainer.verl.monkey_patch import left_right_2_no_padding

    def batch() -> Any:
        columns = {"input_ids": torch.arange(12).reshape(2, 6), "position_ids": torch.arange(6).repeat(2, 1)}
        masks = {"attention_mask": torch.tensor([[0, 1, 1, 1, 1, 0], [1] * 6]), "response_mask": torch.ones(2, 3)}
        return TensorDict(columns | masks, batch_size=[2])

    provide_padding()
    found = left_right_2_no_padding(batch())
    assert [row.tolist() for row in found["input_ids"].unbind()] == [[1, 2, 3, 4], [6, 7, 8, 9, 10, 11]]


def test_flash_attention_is_used_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    own = attention_utils._get_attention_functions
    monkeypatch.setattr(attention_utils, "_get_attention_functions", own)
    monkeypatch.setattr(padding, "find_spec", lambda name: object())
    provide_padding()
    assert attention_utils._get_attention_functions is own


def test_the_workers_have_both() -> None:
    """Trinity's configuration names this module to verl, which imports it in each worker."""
    import astuner_trinity.trainer.worker  # noqa: F401

    plain = attention_utils._get_attention_functions is padding._import_plain_functions
    assert plain == (find_spec("flash_attn") is None)
    assert passes.rearrange_micro_batches.__wrapped__ is rearrange_micro_batches  # type: ignore[attr-defined]
