"""Counter-based random numbers: one uniform per (seed, token index), whatever else is drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MASK = (1 << 64) - 1


def draw_uniforms(seeds: Sequence[int], indices: Sequence[int]) -> NDArray[np.float64]:
    """Return one number in [0, 1) per pair, with 52 random bits, so that `u * total < total` holds after rounding.

    Two rounds of the splitmix64 finaliser (Steele, Lea and Flood 2014): the seed is mixed before the counter is added, so that
    neighbouring seeds share no stream.
    """
    keys = _mix(np.array([seed & _MASK for seed in seeds], np.uint64) + _GOLDEN)
    counters = np.array(indices, np.uint64) * _GOLDEN
    bits = _mix(keys ^ _mix(counters + _GOLDEN))
    return (bits >> np.uint64(12)).astype(np.float64) * 2.0**-52


def _mix(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
