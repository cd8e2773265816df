"""A loss of a user's file, for comparisons of two trainers: tokens of a sample belong together even where every ratio is 1."""

from __future__ import annotations

from typing import Any


class Confident:
    """Weighs a token by the mean probability of its sample."""

    def compute(self, tokens: Any) -> Any:
        """Return the loss of each token."""
        return -tokens.advantages * tokens.average(tokens.logp.detach().exp()) * tokens.logp
