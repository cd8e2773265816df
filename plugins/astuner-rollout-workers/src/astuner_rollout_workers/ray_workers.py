"""Workers as actors of a Ray cluster, spread over its nodes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from attrs import define, field

from astuner.contract.errors import RunFailed
from astuner.shared.services.ray import ADDRESS
from astuner_rollout_workers.message_channel import MessageChannel
from astuner_rollout_workers.worker import RolloutWorker

START_S = 300.0
"""For an actor to start: its node may first have to unpack an environment."""


def has_cluster() -> bool:
    """Whether this process is attached to a Ray cluster, or `RAY_ADDRESS` names one."""
    ray = sys.modules.get("ray")
    return bool(os.environ.get(ADDRESS)) or (ray is not None and bool(ray.is_initialized()))


class WorkerActor:
    """Ray actor: a worker whose messages come and go in batches."""

    def __init__(self) -> None:
        """Wait for the driver's messages."""
        self._batches: asyncio.Queue[bytes] = asyncio.Queue()
        self._outgoing: list[Any] = []
        self._worker: RolloutWorker | None = None
        self._next = 0
        self._early: dict[int, bytes] = {}

    async def listen(self) -> AsyncIterator[bytes]:
        """Yield the messages of the worker until it is over."""
        worker = self._get_worker()
        over = asyncio.ensure_future(worker.over.wait())
        # The first one says that it runs.
        yield b""
        while True:
            getting = asyncio.ensure_future(self._batches.get())
            await asyncio.wait([getting, over], return_when=asyncio.FIRST_COMPLETED)
            if getting.done():
                yield getting.result()
                continue
            getting.cancel()
            await asyncio.sleep(0)
            if not self._outgoing and self._batches.empty():
                return

    async def take(self, place: int, batch: bytes) -> None:
        """Take the batch with this number; Ray may deliver one before those that were sent earlier."""
        from ray import cloudpickle

        self._early[place] = batch
        while self._next in self._early:
            batch = self._early.pop(self._next)
            self._next += 1
            for message in cloudpickle.loads(batch):
                self._get_worker().take(message)

    def _get_worker(self) -> RolloutWorker:
        if self._worker is None:
            self._worker = RolloutWorker(self._send)
        return self._worker

    def _send(self, message: Any) -> None:
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outgoing.append(message)

    def _flush(self) -> None:
        from ray import cloudpickle

        messages, self._outgoing = self._outgoing, []
        self._batches.put_nowait(cloudpickle.dumps(messages))


class ActorChannel:
    """The driver's end of a conversation with an actor."""

    def __init__(self, actor: Any) -> None:
        """Send to this actor."""
        self._actor = actor
        self._outgoing: list[Any] = []
        self._place = 0

    def send(self, message: Any) -> None:
        """Send a message, together with others of this moment."""
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outgoing.append(message)

    def close(self) -> None:
        """Send what was not sent yet."""
        self._flush()

    def _flush(self) -> None:
        from ray import cloudpickle

        messages, self._outgoing = self._outgoing, []
        if messages:
            self._actor.take.remote(self._place, cloudpickle.dumps(messages))
            self._place += 1


@define(eq=False, kw_only=True)
class RayWorker:
    """A worker's actor."""

    channel: MessageChannel
    actor: Any
    node: str
    same_machine: bool
    reading: asyncio.Task[None]
    reasons: list[str]

    async def end(self, grace_s: float) -> None:
        """Wait until it is over, for at most the grace, and end it."""
        import ray

        await asyncio.wait([self.reading], timeout=grace_s)
        self.reading.cancel()
        with suppress(Exception):
            ray.kill(self.actor, no_restart=True)

    def explain(self) -> str:
        """Describe how it ended."""
        return f"on the node {self.node}; {' '.join(self.reasons) or 'Ray gives no reason'}"


@define(eq=False)
class RayWorkerStarter:
    """Starts actors, each on the living node with the fewest of them."""

    namespace: str
    _nodes: Counter[str] = field(factory=Counter, init=False)
    _attaching: asyncio.Lock = field(factory=asyncio.Lock, init=False)
    _attached: bool = field(default=False, init=False)

    async def start(self, number: int, receive: Callable[[Any], None], lose: Callable[[], None]) -> RayWorker:
        """Start an actor, and return once it runs."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        async with self._attaching:
            # In a thread, so that Ray leaves the handlers of signals alone.
            await asyncio.to_thread(self._attach)
        living = sorted(node["NodeID"] for node in ray.nodes() if node["Alive"])
        node = min(living, key=lambda one: (self._nodes[one], one))
        self._nodes[node] += 1
        # Elsewhere if the node ends now; and no CPUs, which the trainer's workers may have reserved.
        strategy = NodeAffinitySchedulingStrategy(node, soft=True)
        actor = (
            ray.remote(WorkerActor).options(num_cpus=0, scheduling_strategy=strategy, name=f"rollout-worker-{number}").remote()
        )
        running = asyncio.get_running_loop().create_future()
        reasons: list[str] = []
        reading = asyncio.get_running_loop().create_task(_read(actor, receive, lose, running, reasons))
        try:
            async with asyncio.timeout(START_S):
                await running
        except Exception as error:
            reading.cancel()
            ray.kill(actor, no_restart=True)
            raise RunFailed(
                f"rollout worker {number} did not start on a node of the Ray cluster: {' '.join(reasons) or error!r}"
            ) from error
        same = node == ray.get_runtime_context().get_node_id()
        return RayWorker(channel=ActorChannel(actor), actor=actor, node=node, same_machine=same, reading=reading, reasons=reasons)

    async def close(self) -> None:
        """Detach from a cluster that was attached to for the workers alone."""
        import ray

        if self._attached:
            await asyncio.to_thread(ray.shutdown)

    def _attach(self) -> None:
        import ray

        from astuner.shared.services.ray import check_answers, describe_unreachable, read_variables_again

        if ray.is_initialized():
            return
        address = os.environ[ADDRESS]
        check_answers(address)
        read_variables_again()
        try:
            ray.init(address=address, namespace=self.namespace, log_to_driver=False, configure_logging=False)
        except (ConnectionError, TimeoutError, ValueError, RuntimeError) as error:
            raise RunFailed(describe_unreachable(address, error)) from error
        self._attached = True


async def _read(
    actor: Any, receive: Callable[[Any], None], lose: Callable[[], None], running: asyncio.Future[None], reasons: list[str]
) -> None:
    """Pass on what an actor says, until it is over or has gone."""
    from ray import cloudpickle

    try:
        async for reference in actor.listen.options(num_returns="streaming").remote():
            batch = await reference
            if not running.done():
                running.set_result(None)
            for message in cloudpickle.loads(batch) if batch else ():
                receive(message)
    except Exception as error:  # noqa: BLE001 - the actor or its node has died
        reasons.append(f"{type(error).__name__}: {str(error).strip().splitlines()[0]}")
        if not running.done():
            running.set_exception(error)
    lose()
