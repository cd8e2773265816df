"""The sessions that an episode has opened in the engine, one for each agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import define, field

if TYPE_CHECKING:
    from astuner.contract.protocols import Engine


@define(eq=False)
class EngineSessions:
    """Names the sessions and calls of an episode, and releases what it opened."""

    engine: Engine
    episode_id: str
    serial: int
    """Distinguishes episodes sharing an id."""
    _opened: set[str] = field(factory=set, init=False)

    def open(self, agent: str) -> str:
        """Return the session of an agent."""
        session = f"{self.episode_id}/{agent}#{self.serial}"
        self._opened.add(session)
        return session

    def name_request(self, index: int) -> str:
        """Return the id of the engine's request for a call."""
        return f"{self.episode_id}/{index}#{self.serial}"

    async def release(self, notice: Callable[[str], None]) -> None:
        """Release every session; what the engine fails to release becomes a notice."""
        for session in sorted(self._opened):
            try:
                await self.engine.release(session)
            except Exception as error:  # noqa: BLE001 - an engine is extension code; the records are complete without it
                notice(f"The engine could not release {session}: {error!r}")
        self._opened.clear()
