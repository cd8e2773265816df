"""The requests in the engine's memory, and the sequences that they continue."""

from __future__ import annotations

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from astuner.contract.schema import FinishReason, Request


def _no_ids() -> NDArray[np.int32]:
    return np.zeros(0, np.int32)


@define(eq=False)
class Generation:
    """A request under way, and what it has sampled."""

    request: Request
    tokens: NDArray[np.int32]
    """The prompt, then the sampled ids; `known` of them are valid."""
    known: int
    limit: int
    """Most ids that it may sample."""
    stops: frozenset[int]
    ids: list[int] = field(factory=list)
    logprobs: list[float] = field(factory=list)
    tops: list[dict[int, float]] = field(factory=list)
    finish: FinishReason | None = None
    error: Exception | None = None
    cancelled: bool = False

    @property
    def done(self) -> bool:
        """Whether nothing more will come."""
        return self.finish is not None or self.error is not None


@define(eq=False)
class Slot:
    """A row of the KV cache: a sequence of ids, the first `length` of which have their keys and values there."""

    index: int
    ids: NDArray[np.int32] = field(factory=_no_ids)
    length: int = 0
    session: str | None = None
    """None when the row is free."""
    generation: Generation | None = None
    """The request that runs on it now."""
    used: int = 0
    """The step of its last use."""
    keys: list[int] = field(factory=list)
    """Its keys in the prefix index."""

    @property
    def idle(self) -> bool:
        """Whether it holds a sequence that no request runs on."""
        return self.session is not None and self.generation is None

    @property
    def pending(self) -> int:
        """How many ids of the running request have no keys and values yet; 1 while it decodes."""
        return 0 if self.generation is None else self.generation.known - self.length
