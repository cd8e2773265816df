"""Closes connections without a request; uvicorn itself waits for a request's headers forever."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol


def make_impatient_protocol(timeout_s: float) -> type[H11Protocol]:
    """Return uvicorn's protocol with a limit on how long a connection may be open without a request."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Impatient(H11Protocol):
        """The time runs from the connection, and from the first bytes after an answer."""

        _waiting: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget()
            super().connection_lost(exc)

        def _watch(self) -> None:
            if self._is_answering():
                self._forget()
            elif self._waiting is None:
                self._waiting = self.loop.call_later(timeout_s, self._close_if_idle)

        def _close_if_idle(self) -> None:
            self._waiting = None
            if not self._is_answering():
                self.transport.close()

        def _forget(self) -> None:
            if self._waiting is not None:
                self._waiting.cancel()
            self._waiting = None

        def _is_answering(self) -> bool:
            # None before the first request, despite its annotation.
            cycle = self.cycle
            return bool(cycle) and not cycle.response_complete

    return Impatient
