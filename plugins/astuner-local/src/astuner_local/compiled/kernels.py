"""The compiled kernels as functions of tensors, each tried against torch before it is used."""

from __future__ import annotations

import ctypes
import logging
import tempfile
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from attrs import frozen
from torch import Tensor
from torch.nn import functional

from astuner_local.compiled.build import build_kernels
from astuner_local.forward.rotary import rotate

LANES = 8
"""Head sizes and inner dimensions must be multiples of this."""
MOST_SHARED = 16
"""Most queries that may share a head of keys."""
FEW = 32
"""Up to as many rows the kernels are faster than a library's product in float32."""
_TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
_LOG = logging.getLogger(__name__)


class _Step(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("q", "k", "v", "out", "keys", "values", "slots", "positions")),
        *((name, ctypes.c_int64) for name in ("tokens", "heads", "kv_heads", "dim")),
        *((name, ctypes.c_int64) for name in ("q_stride", "k_stride", "v_stride", "length")),
        ("scale", ctypes.c_float),
    )


@frozen(eq=False)
class Kernels:
    """The kernels for one dtype."""

    dtype: torch.dtype
    _attend: Callable[..., Any]
    _apply_linear: Callable[..., Any]
    _normalize: Callable[..., Any]
    _rotate: Callable[..., Any]
    _gate: Callable[..., Any]

    @classmethod
    def load(cls, library: bytes, dtype: torch.dtype) -> Kernels:
        """Load a compiled library; raises OSError if that cannot be."""
        with tempfile.NamedTemporaryFile(prefix="astuner-", suffix=".so") as file:
            file.write(library)
            file.flush()
            loaded = ctypes.CDLL(file.name)
        loaded.attend.argtypes = [ctypes.POINTER(_Step), ctypes.c_int64]
        pointer, size = ctypes.c_void_p, ctypes.c_int64
        loaded.apply_linear.argtypes = [pointer] * 4 + [size] * 5
        loaded.normalize.argtypes = [pointer] * 3 + [size] * 3 + [ctypes.c_float, size]
        loaded.rotate.argtypes = [pointer] * 2 + [size] * 5
        loaded.apply_gate.argtypes = [pointer] * 2 + [size] * 3
        return cls(dtype, loaded.attend, loaded.apply_linear, loaded.normalize, loaded.rotate, loaded.apply_gate)

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        cache: tuple[Tensor, Tensor],
        slots: Tensor,
        positions: Tensor,
        *,
        scale: float,
    ) -> Tensor:
        """Store k and v [N, kv_heads, head_dim] in the cache, and return what q [N, heads, head_dim] attends to.

        `cache` is keys and values [rows * kv_heads, length, head_dim], `length` a multiple of 16; keys are kept in blocks of 16
        tokens, [head_dim, 16] each. `slots` and `positions` are int64 [N]. Tokens of slot -1 are not stored, and get zeros;
        consecutive tokens of a slot are at consecutive positions.
        """
        q, k, v = (_pack_heads(x) for x in (q, k, v))
        tokens, heads, dim = q.shape
        keys, values = cache
        out = torch.empty(tokens, heads, dim, dtype=q.dtype)
        step = _Step(
            q.data_ptr(),
            k.data_ptr(),
            v.data_ptr(),
            out.data_ptr(),
            keys.data_ptr(),
            values.data_ptr(),
            slots.data_ptr(),
            positions.data_ptr(),
            tokens,
            heads,
            k.shape[1],
            dim,
            q.stride(0),
            k.stride(0),
            v.stride(0),
            keys.shape[1],
            scale,
        )
        if self._attend(ctypes.byref(step), torch.get_num_threads()):
            raise MemoryError(f"no memory for the scores of {tokens} tokens")
        return out

    def multiply(self, x: Tensor, weight: Tensor, bias: Tensor | None, block: int) -> Tensor:
        """Return x [rows, inner] times weight [columns, inner], transposed, plus bias; sums begin again after `block` inputs."""
        x = x.contiguous()
        rows, inner = x.shape
        columns = weight.shape[0]
        out = torch.empty(rows, columns, dtype=x.dtype)
        added = None if bias is None else bias.data_ptr()
        threads = torch.get_num_threads()
        if self._apply_linear(x.data_ptr(), weight.data_ptr(), added, out.data_ptr(), rows, inner, columns, block, threads):
            raise MemoryError(f"no memory for {rows} rows of {inner} inputs")
        return out

    def normalize(self, x: Tensor, gain: Tensor | None, eps: float) -> Tensor:
        """Return x / rms(x) * gain over the last dimension; the gain is None, or has the shape of the end of x."""
        x = x.contiguous()
        out = torch.empty_like(x)
        size = x.shape[-1]
        gains, added = (1, None) if gain is None else (gain.numel() // size, gain.data_ptr())
        self._normalize(x.data_ptr(), added, out.data_ptr(), x.numel() // size, size, gains, eps, torch.get_num_threads())
        return out

    def rotate(self, x: Tensor, turns: Tensor) -> Tensor:
        """Turn x [N, heads, head_dim] in place by cosines and signed sines [N, 2, head_dim], and return it."""
        rows, heads, dim = x.shape
        self._rotate(x.data_ptr(), turns.data_ptr(), rows, x.stride(0), heads, dim, torch.get_num_threads())
        return x

    def gate(self, x: Tensor) -> Tensor:
        """Return silu(g) * u of x [N, 2 * size], which is g then u."""
        rows, size = x.shape[0], x.shape[1] // 2
        out = torch.empty(rows, size, dtype=x.dtype)
        self._gate(x.data_ptr(), out.data_ptr(), rows, size, torch.get_num_threads())
        return out


def _pack_heads(x: Tensor) -> Tensor:
    return x if x.stride(2) == 1 and x.stride(1) == x.shape[2] else x.contiguous()


def fits_kernels(heads: int, kv_heads: int, head_dim: int) -> bool:
    """Whether the kernels can compute attention of this shape."""
    return head_dim % LANES == 0 and heads // kv_heads <= MOST_SHARED


@cache
def load_kernels(dtype: torch.dtype, device: str) -> Kernels | None:
    """Return the kernels, compiled if necessary; None, with a line in the log, where they cannot be had or do not agree."""
    if device != "cpu" or dtype not in _TOLERANCE:
        return None
    try:
        kernels = Kernels.load(build_kernels(bfloat16=dtype == torch.bfloat16), dtype)
    except (OSError, RuntimeError, AttributeError) as error:
        _LOG.info("the engine computes without compiled kernels: %s", error)
        return None
    if fault := find_fault(kernels):
        _LOG.warning("the engine computes without compiled kernels: %s", fault)
        return None
    return kernels


@torch.inference_mode()
def find_fault(kernels: Kernels) -> str | None:
    """Return how the kernels disagree with torch on random tensors, or None."""
    draw = torch.Generator().manual_seed(0)
    tolerance = _TOLERANCE[kernels.dtype]
    for heads, kv_heads, dim, length in ((4, 4, 24, 150), (6, 2, 64, 70)):
        x = torch.randn(length, heads + 2 * kv_heads, dim, generator=draw).to(kernels.dtype)
        q, k, v = x[:, :heads], x[:, heads : heads + kv_heads], x[:, heads + kv_heads :]
        empty = torch.zeros(2, 2 * kv_heads, 160, dim, dtype=kernels.dtype)
        slots, positions = torch.ones(length, dtype=torch.long), torch.arange(length)
        wide_q, wide_k, wide_v = (part.float().transpose(0, 1)[None] for part in (q, k, v))
        seen = functional.scaled_dot_product_attention(wide_q, wide_k, wide_v, is_causal=True, enable_gqa=True)
        whole = kernels.attend(q, k, v, (empty[0], empty[1]), slots, positions, scale=dim**-0.5)
        if (error := _measure_error(whole, seen[0].transpose(0, 1))) > tolerance:
            return f"compiled attention is {error:.1e} off"
        again = torch.zeros_like(empty)
        for begin, end in ((0, 37), (37, length - 2), (length - 2, length - 1), (length - 1, length)):
            here = slice(begin, end)
            part = kernels.attend(q[here], k[here], v[here], (again[0], again[1]), slots[here], positions[here], scale=dim**-0.5)
            if not torch.equal(part, whole[here]):
                return "compiled attention gives a token other bits in other company"
    x, weight = (torch.randn(rows, 200, generator=draw).to(kernels.dtype) for rows in (59, 50))
    expected = functional.linear(x.float(), weight.float())
    for rows, block in ((59, 200), (8, 96)):
        if (error := _measure_error(kernels.multiply(x[:rows], weight, None, block), expected[:rows])) > tolerance:
            return f"the compiled linear layer is {error:.1e} off"
    return _find_fault_in_rows(kernels, draw)


def _find_fault_in_rows(kernels: Kernels, draw: torch.Generator) -> str | None:
    x, gain = (torch.randn(size, generator=draw).to(kernels.dtype) for size in ((5, 3, 48), (3, 48)))
    turns = torch.randn(5, 2, 48, generator=draw).to(kernels.dtype)
    wide = x.float()
    flat = x.view(5, -1)
    tried = {
        "normalisation": (kernels.normalize(x, gain, 1e-6), functional.rms_norm(wide, (48,), None, 1e-6) * gain.float()),
        "gate": (kernels.gate(flat), functional.silu(flat[:, :72].float()) * flat[:, 72:].float()),
        "rotation": (kernels.rotate(x.clone(), turns), rotate(wide, turns.float())),
    }
    errors = {name: _measure_error(*pair) for name, pair in tried.items()}
    return next(
        (f"the compiled {name} is {error:.1e} off" for name, error in errors.items() if error > _TOLERANCE[kernels.dtype]), None
    )


def _measure_error(found: Tensor, expected: Tensor) -> float:
    error = float((found.float() - expected).abs().max() / expected.abs().max())
    return error if error == error else float("inf")
