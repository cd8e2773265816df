"""The program of a player's process: python -m astuner.episodes.rollout_workers.program SOCKET NUMBER."""

from __future__ import annotations

import asyncio
import sys

from astuner.episodes.containment.guarded_loop import GuardedLoop
from astuner.episodes.containment.process_exit import exit_process
from astuner.episodes.rollout_workers.channel import StreamChannel
from astuner.episodes.rollout_workers.player import Player


async def play(socket: str, number: int) -> None:
    """Connect to the driver, and play until it says so, or has gone."""
    channel = StreamChannel(lambda _, message: player.take(message), lambda _: player.abandon())
    player = Player(channel.send)
    await asyncio.get_running_loop().create_unix_connection(lambda: channel, socket)
    channel.send(number)
    await player.over.wait()
    channel.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=GuardedLoop) as runner:
        runner.run(play(sys.argv[1], int(sys.argv[2])))
    exit_process(0)
