"""The program of a worker's process: python -m astuner_rollout_workers.program SOCKET NUMBER."""

from __future__ import annotations

import asyncio
import sys

from astuner.episodes.containment.guarded_loop import GuardedLoop
from astuner.episodes.containment.process_exit import exit_process
from astuner_rollout_workers.message_channel import StreamChannel
from astuner_rollout_workers.worker import RolloutWorker


async def play(socket: str, number: int) -> None:
    """Connect to the driver, and play until it ends the worker or has gone."""
    channel = StreamChannel(lambda _, message: worker.take(message), lambda _: worker.abandon())
    worker = RolloutWorker(channel.send)
    await asyncio.get_running_loop().create_unix_connection(lambda: channel, socket)
    channel.send(number)
    await worker.over.wait()
    channel.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=GuardedLoop) as runner:
        runner.run(play(sys.argv[1], int(sys.argv[2])))
    exit_process(0)
