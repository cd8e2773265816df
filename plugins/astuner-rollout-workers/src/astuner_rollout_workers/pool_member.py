"""A worker as the pool sees it, and the interface of what starts one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from attrs import define, field

from astuner_rollout_workers.message_channel import MessageChannel
from astuner_rollout_workers.pending_group import PendingGroup
from astuner_rollout_workers.request_server import RequestServer


class StartedWorker(Protocol):
    """A started worker. Lives in the driver's event loop."""

    channel: MessageChannel
    same_machine: bool
    """Whether it runs on the driver's machine, so that it reaches servers that listen to this machine only."""

    async def end(self, grace_s: float) -> None:
        """End it, by force after the grace."""

    def explain(self) -> str:
        """Describe how it ended, with the last lines of its log."""


class WorkerStarter(Protocol):
    """Starts workers somewhere."""

    async def start(self, number: int, receive: Callable[[Any], None], lose: Callable[[], None]) -> StartedWorker:
        """Start a worker; `receive` gets its messages, `lose` is called when it has gone. Raises `RunFailed` with the reason."""

    async def close(self) -> None:
        """Free what was needed to start them."""


@define(eq=False, kw_only=True)
class PoolMember:
    """What the pool holds for one worker. A worker that ends is replaced by a new member."""

    number: int
    worker: StartedWorker | None = None
    server: RequestServer | None = None
    ready: asyncio.Future[None] = field(factory=lambda: asyncio.get_running_loop().create_future(), init=False)
    access: Any = None
    """The access to the engine that it has."""
    busy_s: float | None = field(default=None, init=False)
    groups: dict[int, PendingGroup] = field(factory=dict, init=False)
    """By the number of the attempt."""
    gone: bool = field(default=False, init=False)

    @property
    def load(self) -> int:
        """How many episodes it still has to play."""
        return sum(pending.missing for pending in self.groups.values())

    def send(self, message: Any) -> None:
        """Send it a message; has no effect once it has gone."""
        if self.worker is not None and not self.gone:
            self.worker.channel.send(message)
