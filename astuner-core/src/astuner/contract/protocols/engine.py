"""The protocol of engines, which generate tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from astuner.contract.schema import Capabilities, Chunk, Request


class Engine(Protocol):
    """Generates tokens. Lives where the rollouts run.

    It may offer `ReportsProgress` and `MeasuresBusyTime`, and its class `Honours` and `KnowsItsNeeds`
    (`astuner.contract.protocols.optional`).
    """

    @property
    def capabilities(self) -> Capabilities:
        """What this engine can do."""

    async def start(self) -> None:
        """Be ready to generate; called once in the running event loop."""

    def generate(self, request: Request) -> AsyncIterator[Chunk]:
        """Yield the tokens of a request as they come. Closing the iterator cancels the request."""

    async def release(self, session: str) -> None:
        """Release the resources of a session (its KV cache)."""

    async def update_weights(self, ref: Any, version: int) -> None:
        """Serve new weights: `ref` comes from the backbone that owns the engine (a module, a path)."""

    async def pause(self) -> None:
        """Start no new request until `resume`."""

    async def resume(self) -> None:
        """Start requests again after `pause`."""

    async def close(self) -> None:
        """Stop, and free all resources."""


MakeEngine = Callable[[], Engine]
