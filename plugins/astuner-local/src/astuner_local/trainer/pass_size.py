"""How many tokens one pass through a model may have. Imports no torch."""

from __future__ import annotations

from attrs import frozen

CPU_CACHE_BYTES = 4 << 30
"""Of the engine's keys and values on a CPU."""
_CPU_BYTES = 4 << 30
_CPU_TOKENS, _CUDA_TOKENS = 8192, 65536
_CPU_LOGITS, _CUDA_LOGITS = 1 << 23, 1 << 25


_PADDED_SHARE = 8
"""A padded place in attention takes two of the at least 16 tensors that a token takes in a layer."""
_LONG = 1024
"""Tokens of a pass from which copies of paths cost more than further calls."""


@frozen(kw_only=True)
class PassLimit:
    """How large a pass may be."""

    tokens: int
    """Packed tokens, and what takes the memory of as many."""
    mask_entries: int
    """Entries of an attention mask, which all layers share, that take the memory of one token."""


@frozen(kw_only=True)
class PassSize:
    """What the memory of a pass follows from: its tokens, and the rectangles that attention pads them to."""

    tokens: int = 0
    """Of the flat list, where a shared prefix counts once."""
    roots: int = 0
    """Rows that start at their first token."""
    longest_root: int = 0
    branches: int = 0
    """Rows that continue another one's prefix."""
    branch_tokens: int = 0
    """Their own tokens."""
    longest_own: int = 0
    """The most tokens that a branch has of its own."""
    longest_path: int = 0

    def __add__(self, other: PassSize) -> PassSize:
        """Return the size of a pass that has the rows of both."""
        return PassSize(
            tokens=self.tokens + other.tokens,
            roots=self.roots + other.roots,
            longest_root=max(self.longest_root, other.longest_root),
            branches=self.branches + other.branches,
            branch_tokens=self.branch_tokens + other.branch_tokens,
            longest_own=max(self.longest_own, other.longest_own),
            longest_path=max(self.longest_path, other.longest_path),
        )

    @property
    def one_mask(self) -> bool:
        """Whether all branches of a tree attend in one call, to its tokens as they lie, and not each to a copy of its path.

        That is so for long passes, unless it computes more than twice as many scores.
        """
        padded = self.branches * self.longest_own * self.longest_path
        return self.tokens >= _LONG and 0 < self.branch_tokens * self.tokens <= 2 * padded

    def count(self, limit: PassLimit) -> int:
        """Return the packed tokens, and as many as take the memory of padded copies and of masks."""
        if self.one_mask:
            return self.tokens + self.branch_tokens * self.tokens // limit.mask_entries
        places = 2 * self.roots * self.longest_root + self.branches * (self.longest_own + self.longest_path)
        mask = self.branches * self.longest_own * self.longest_path
        return self.tokens + max(0, places - 2 * self.tokens) // _PADDED_SHARE + mask // limit.mask_entries


def measure_span(start: int, length: int) -> PassSize:
    """Return the size of a row of `length` tokens whose first `start` belong to an earlier row of the pass."""
    own = length - start
    if not own:
        return PassSize()
    if not start:
        return PassSize(tokens=own, roots=1, longest_root=own)
    return PassSize(tokens=own, branches=1, branch_tokens=own, longest_own=own, longest_path=length)


def count_logits(wanted: int | None, *, cuda: bool) -> int:
    """Return how many logits are held at once."""
    return wanted or (_CUDA_LOGITS if cuda else _CPU_LOGITS)


def count_token_floats(*, layers: int, width: int, inner: int) -> int:
    """Return how many numbers a token's activations are, with gradients."""
    # Counted with saved-tensor hooks on Qwen2: 6.5 x width + 4 x intermediate + heads, per token and layer; gradients come on top
    return layers * (10 * width + 6 * inner)


def count_affordable_tokens(*, layers: int, width: int, inner: int, cuda: bool, free: int) -> int:
    """Return how many tokens' activations 4 GiB hold, on CUDA a `free` number of bytes.

    At most 8192, on CUDA 65536: more gains nothing. The CPU's limit does not depend on the machine, so that results do not.
    """
    floats = count_token_floats(layers=layers, width=width, inner=inner)
    most, room = (_CUDA_TOKENS, free) if cuda else (_CPU_TOKENS, _CPU_BYTES)
    return max(1, min(most, room // (4 * floats)))
