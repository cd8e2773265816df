"""How many tokens one pass through a model may have. Imports no torch."""

from __future__ import annotations

CPU_CACHE_BYTES = 4 << 30
"""Of the engine's keys and values on a CPU."""
_CPU_BYTES = 4 << 30
_CPU_TOKENS, _CUDA_TOKENS = 8192, 65536


def count_affordable_tokens(*, layers: int, width: int, inner: int, cuda: bool, free: int) -> int:
    """Return how many tokens' activations 4 GiB hold, on CUDA a `free` number of bytes.

    At most 8192, on CUDA 65536: more gains nothing. The CPU's limit does not depend on the machine, so that results do not.
    """
    # Counted with saved-tensor hooks on Qwen2: 6.5 x width + 4 x intermediate + heads, per token and layer; gradients come on top
    floats = layers * (10 * width + 6 * inner)
    most, room = (_CUDA_TOKENS, free) if cuda else (_CPU_TOKENS, _CPU_BYTES)
    return max(1, min(most, room // (4 * floats)))
