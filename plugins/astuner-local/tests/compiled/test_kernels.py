"""The kernels in C: built once, tried before they are used, and left out where they cannot be had."""

from __future__ import annotations

import logging
import shutil
import subprocess

import pytest
import torch

from astuner_local.compiled import build, kernels, operations
from astuner_local.compiled.build import SOURCE, build_kernels
from astuner_local.compiled.kernels import FEW, Kernels, find_fault, load_kernels
from astuner_local.compiled.operations import make_operations

DTYPES = [torch.float32, torch.bfloat16]
needs_compiler = pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A cache directory in which nothing was built before these tests."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _untried(cache, monkeypatch):
    """Kernels are loaded, and tried, by each test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    torch.set_num_threads(1)
    load_kernels.cache_clear()
    yield
    load_kernels.cache_clear()


@pytest.fixture(params=DTYPES, ids=str)
def compiled(request) -> Kernels:
    """The kernels of a dtype."""
    return load_kernels(request.param, "cpu") or pytest.skip("no C compiler")


def _break(tmp_path, monkeypatch, right: str, wrong: str) -> None:
    text = SOURCE.read_text(encoding="utf-8")
    assert right in text
    broken = tmp_path / "kernels.c"
    broken.write_text(text.replace(right, wrong), encoding="utf-8")
    monkeypatch.setattr(kernels, "build_kernels", lambda *, bfloat16: build_kernels(bfloat16=bfloat16, source=broken))


@needs_compiler
@pytest.mark.parametrize(
    ("right", "wrong", "fault"),
    [
        ("spread(s->scale)", "spread(s->scale * 1.001f)", "compiled attention is"),
        ("multiply(p, at, 1);", "multiply(p, at, 1), p->sums[at * p->sums_apart] += 1e-6f;", "other bits"),
        ("transpose(w);", "", "linear layer"),
        ("+ job->eps", "+ 1e-3f", "normalisation"),
        ("* cos_one + b", "* cos_one - b", "rotation"),
    ],
)
def test_a_wrong_kernel_is_not_used(right, wrong, fault, tmp_path, monkeypatch, caplog):
    _break(tmp_path, monkeypatch, right, wrong)
    with caplog.at_level(logging.WARNING):
        assert load_kernels(torch.float32, "cpu") is None
    assert fault in caplog.text


def test_the_engine_computes_without_a_compiler(monkeypatch, caplog):
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    with caplog.at_level(logging.INFO):
        assert load_kernels(torch.float32, "cpu") is None
    assert "none of cc, gcc, clang is installed" in caplog.text


@needs_compiler
def test_a_compiler_that_fails_is_named(tmp_path, monkeypatch, caplog):
    _break(tmp_path, monkeypatch, "#include <math.h>", "#error broken")
    with caplog.at_level(logging.INFO):
        assert load_kernels(torch.float32, "cpu") is None
    assert "failed: " in caplog.text
    assert "broken" in caplog.text


@needs_compiler
def test_a_library_is_built_once(monkeypatch):
    first = build_kernels(bfloat16=False)
    monkeypatch.setattr(subprocess, "run", None)
    assert build_kernels(bfloat16=False) == first


@pytest.mark.parametrize(("dtype", "device"), [(torch.float32, "cuda"), (torch.float16, "cpu"), (torch.float64, "cpu")])
def test_what_the_kernels_cannot_compute_is_left_to_torch(dtype, device):
    assert load_kernels(dtype, device) is None


def test_threads_change_no_bit(compiled):
    x = torch.randn(700, 12, 64).to(compiled.dtype)
    q, k, v = x[:, :8], x[:, 8:10], x[:, 10:]
    slots, positions = torch.zeros(700, dtype=torch.long), torch.arange(700)
    weight = torch.randn(900, 512).to(compiled.dtype)

    def compute() -> list[torch.Tensor]:
        cache = torch.zeros(2, 4, 704, 64, dtype=compiled.dtype)
        rows = torch.ones(40, 512, dtype=compiled.dtype)
        seen = compiled.attend(q, k, v, (cache[0], cache[1]), slots, positions, scale=0.125)
        return [
            seen,
            compiled.multiply(rows, weight, None, 512),
            compiled.gate(x.view(700, -1)),
            compiled.normalize(x, None, 1e-6),
        ]

    alone = compute()
    torch.set_num_threads(3)
    together = compute()
    torch.set_num_threads(1)
    assert all(torch.equal(one, other) for one, other in zip(alone, together, strict=True))


def test_padding_is_stored_nowhere_and_gets_zeros(compiled):
    q, k, v = (torch.randn(3, heads, 32).to(compiled.dtype) for heads in (4, 2, 2))
    cache = torch.zeros(2, 4, 16, 32, dtype=compiled.dtype)
    slots, positions = torch.tensor([-1, 1, -1]), torch.tensor([0, 0, 0])
    seen = compiled.attend(q, k, v, (cache[0], cache[1]), slots, positions, scale=1.0)
    assert not seen[0].any()
    assert not seen[2].any()
    assert torch.equal(seen[1], v[1].repeat_interleave(2, 0))
    assert int(cache.ne(0).sum()) == 2 * 2 * 32


@pytest.mark.parametrize("inner", [64, 96, 256, 384, 576, 1536])
@pytest.mark.parametrize("biased", [False, True])
def test_few_rows_have_the_bits_of_many(inner, biased):
    found = load_kernels(torch.float32, "cpu") or pytest.skip("no C compiler")
    weight, x = torch.randn(203, inner), torch.randn(500, inner)
    bias = torch.randn(203) if biased else None
    made = make_operations(found, [(weight, bias)], 32)
    if not made.unpadded_rows:
        pytest.skip("torch sums in another order on this processor")
    many = made.linear(x, weight, bias)
    assert all(torch.equal(made.linear(x[:rows], weight, bias), many[:rows]) for rows in range(1, FEW + 1))


def test_rows_are_padded_where_torch_sums_in_another_order(monkeypatch):
    found = load_kernels(torch.float32, "cpu") or pytest.skip("no C compiler")
    multiply = torch.nn.functional.linear
    monkeypatch.setattr(operations.functional, "linear", lambda x, weight, bias: multiply(x, weight, bias) * 1.0001)
    assert make_operations(found, [(torch.randn(24, 40), None)], 32).unpadded_rows == 0


@pytest.mark.parametrize(("inner", "head_dim"), [(12, 32), (32, 12)])
def test_shapes_that_are_no_multiples_of_a_vector_are_left_to_torch(inner, head_dim):
    found = load_kernels(torch.float32, "cpu") or pytest.skip("no C compiler")
    assert make_operations(found, [(torch.randn(8, inner), None)], head_dim) is None


def test_kernels_agree_with_torch(compiled):
    assert find_fault(compiled) is None


def test_a_score_that_is_not_finite_is_reported_by_what_follows(compiled):
    q, k, v = (torch.ones(4, 1, 32, dtype=compiled.dtype) for _ in range(3))
    k[2] = float("nan")
    cache = torch.zeros(2, 1, 16, 32, dtype=compiled.dtype)
    slots, positions = torch.zeros(4, dtype=torch.long), torch.arange(4)
    seen = compiled.attend(q, k, v, (cache[0], cache[1]), slots, positions, scale=1.0)
    assert seen[:2].isfinite().all()
    assert seen[2:].isnan().all()
