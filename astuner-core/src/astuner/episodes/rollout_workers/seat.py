"""A player as the pool sees it, and what starts one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from attrs import define, field

from astuner.episodes.rollout_workers.channel import Channel
from astuner.episodes.rollout_workers.desk import Desk
from astuner.episodes.rollout_workers.game import Game


class Link(Protocol):
    """A started player. Lives in the driver's event loop."""

    channel: Channel
    same_machine: bool
    """Whether it runs on the driver's machine, so that it reaches servers that listen to this machine only."""

    async def end(self, grace_s: float) -> None:
        """End it, by force after the grace."""

    def explain(self) -> str:
        """Describe how it ended, with the last lines of its log."""


class Starter(Protocol):
    """Starts players somewhere."""

    async def start(self, number: int, receive: Callable[[Any], None], lose: Callable[[], None]) -> Link:
        """Start a player; `receive` gets its messages, `lose` is called when it has gone. Raises `RunFailed` with the reason."""

    async def close(self) -> None:
        """Free what was needed to start them."""


@define(eq=False, kw_only=True)
class Seat:
    """A player's place in the pool; when the player ends, another one takes a new seat."""

    number: int
    link: Link | None = None
    desk: Desk | None = None
    ready: asyncio.Future[None] = field(factory=lambda: asyncio.get_running_loop().create_future(), init=False)
    access: Any = None
    """The access to the engine that it has."""
    busy_s: float | None = field(default=None, init=False)
    games: dict[int, Game] = field(factory=dict, init=False)
    """By the number of the attempt."""
    gone: bool = field(default=False, init=False)

    @property
    def load(self) -> int:
        """How many episodes it still has to play."""
        return sum(game.missing for game in self.games.values())

    def send(self, message: Any) -> None:
        """Send it a message; has no effect once it has gone."""
        if self.link is not None and not self.gone:
            self.link.channel.send(message)
