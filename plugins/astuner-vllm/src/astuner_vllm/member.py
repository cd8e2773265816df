"""One server of a fleet: started by us, found again, or external."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from attrs import define, field

from astuner_vllm.client import ServerClient
from astuner_vllm.server import Say, ServerPlan, start_server, wait_until_serving

if TYPE_CHECKING:
    from astuner.shared.processes import ProgramHandle

LOOK_S = 2.0
"""Interval between checks of a lost external server."""


@define(eq=False, kw_only=True)
class Member:
    """A server and its state."""

    name: str
    connect: Callable[[ProgramHandle], ServerClient] | None = None
    """Makes a client for one of our servers."""
    client: ServerClient
    """Until our own server starts, a client without an address."""
    plan: ServerPlan | None = None
    """Starts it; None for a server that we do not manage."""
    find: Callable[[Say], ProgramHandle | None] | None = None
    """Finds one that was kept from an earlier run."""
    up: bool = field(default=False, init=False)
    """Whether it accepts requests."""
    failed: str | None = field(default=None, init=False)
    """Why it never will again, if so."""
    sessions: int = field(default=0, init=False)
    load: int = field(default=0, init=False)
    """Requests under way."""
    _launched: ProgramHandle | None = field(default=None, init=False)
    _lease: ExitStack = field(factory=ExitStack, init=False)

    async def start(self, say: Say) -> None:
        """Start it for the first time."""
        if self.plan is not None:
            found = None if self.find is None else await asyncio.to_thread(self.find, say)
            self._hold(found or await start_server(self.plan, say))
            if found is not None:
                # Another run may have started it a moment ago.
                await wait_until_serving(self.plan, found, say)
        await self._meet()
        self.up = True

    async def start_again(self, say: Say) -> None:
        """Replace it, or wait until its owner has; it does not accept requests yet."""
        if self.plan is None:
            while not await self.client.is_healthy():
                await asyncio.sleep(LOOK_S)
            await self.client.meet()
            return
        await self.client.close()
        if self._launched is not None:
            self._lease.close()
            await asyncio.to_thread(self._launched.end)
        self._hold(await start_server(self.plan, say))
        await self._meet()

    def exit_status(self) -> int | None:
        """Return how it ended; None while it lives, or if it is not ours."""
        return None if self._launched is None else self._launched.poll()

    async def close(self) -> None:
        """End it if it is ours and not kept."""
        self.up = False
        await self.client.close()
        self._lease.close()
        if self._launched is not None and self._launched.record.lease is None:
            await asyncio.to_thread(self._launched.end)

    def _hold(self, launched: ProgramHandle) -> None:
        self._launched = launched
        self._lease = ExitStack()
        if launched.record.lease is not None:
            self._lease.enter_context(launched.keep_leased())
        assert self.connect is not None
        self.client = self.connect(launched)

    async def _meet(self) -> None:
        await self.client.open()
        await self.client.meet()
