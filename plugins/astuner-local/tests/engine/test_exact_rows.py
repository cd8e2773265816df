from __future__ import annotations

import pytest
import torch

from astuner_local.engine import exact_rows
from astuner_local.engine.exact_rows import SAFE, find_row_multiple


@pytest.fixture(autouse=True)
def _untried():
    """What was found before is forgotten, and forgotten again after a test that changes products."""
    exact_rows._try_multiples.cache_clear()
    yield
    exact_rows._try_multiples.cache_clear()


def test_multiples_of_it_give_each_row_the_same_bits():
    multiple = find_row_multiple(torch.float32, torch.device("cpu"), 64)
    rows, weight = torch.randn(SAFE, 80), torch.randn(200, 80)
    assert SAFE % multiple == 0
    assert torch.equal(rows[:multiple] @ weight.T, (rows @ weight.T)[:multiple])


@pytest.mark.parametrize("few", [4, 8, 12])
def test_rows_that_take_another_kernel_are_padded(few: int, monkeypatch: pytest.MonkeyPatch):
    multiply = torch.bmm
    monkeypatch.setattr(torch, "bmm", lambda a, b: multiply(a, b) * (1 + (a.shape[1] <= few) * 1e-6))
    assert find_row_multiple(torch.float32, torch.device("cpu"), 64) == (8 if few == 4 else SAFE)


@pytest.mark.parametrize(("dtype", "device"), [(torch.bfloat16, "cpu"), (torch.float16, "cpu"), (torch.float32, "cuda")])
def test_nothing_is_padded_where_no_bits_are_promised(dtype: torch.dtype, device: str):
    assert find_row_multiple(dtype, torch.device(device), 64) == 1


@pytest.mark.parametrize("head_dim", [2, 4, 6])
def test_small_heads_get_the_kernel_of_large_ones(head_dim: int):
    multiple = find_row_multiple(torch.float32, torch.device("cpu"), head_dim)
    assert multiple * head_dim * 16 >= 400
