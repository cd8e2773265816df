"""All instances of a server: bounded in number, released when idle, all counted."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, TypeVar
from uuid import uuid4

from astuner.contract.schema import Task
from astuner_envs.server.faults import BadRequest, Fault, InstanceLost, ServerFull
from astuner_envs.server.forking import Forking
from astuner_envs.server.instance import Channel, Instance
from astuner_envs.server.settings import Settings

T = TypeVar("T")
Ended = Literal["released", "idle", "lost", "refused"]
"""`lost`: its process ended or was too slow; `refused`: it could not start."""

REMEMBERED = 10_000
"""Ended instances whose reason is remembered."""
MOST_LOOKS_S = 5.0


class Instances:
    """Makes, finds and ends instances."""

    def __init__(self, settings: Settings, forking: Forking) -> None:
        self._settings, self._forking = settings, forking
        self._alive: dict[str, Instance] = {}
        self._beginnings: dict[str, asyncio.Task[Mapping[str, Any]]] = {}
        self._gone: OrderedDict[str, str] = OrderedDict()
        self._ends: Counter[Ended] = Counter()
        self._created = 0

    @property
    def accounts(self) -> Mapping[str, int]:
        """How many were created, are alive, and ended, by reason: the first is the sum of the others."""
        ends: tuple[Ended, ...] = ("released", "idle", "lost", "refused")
        return {"created": self._created, "alive": len(self._alive), **{name: self._ends[name] for name in ends}}

    async def ids(self, world: int, split: str) -> list[str]:
        """Ask an environment for the ids of a split's tasks, in a separate process."""
        channel = Channel(self._forking, self._settings.limits)
        await channel.open(world)
        try:
            return list(await channel.ask("tasks", split=split))
        finally:
            await channel.end()

    async def create(self, world: int, task: Task, instance_id: str | None) -> Mapping[str, Any]:
        """Create an instance. A repeated request, from a client that lost the answer, gets the same instance."""
        instance_id = instance_id or uuid4().hex
        if (there := self._alive.get(instance_id)) is not None:
            if (there.world, there.task, there.steps) != (world, task, 0):
                raise BadRequest(f"instance {instance_id!r} is there already: choose another id")
            return await self._begin(there)
        if len(self._alive) >= self._settings.max_instances:
            raise ServerFull(f"all {self._settings.max_instances} instances are in use (--max-instances); come again later")
        instance = Instance(
            instance_id=instance_id, world=world, task=task, channel=Channel(self._forking, self._settings.limits)
        )
        self._alive[instance_id] = instance
        self._created += 1
        self._beginnings[instance_id] = asyncio.create_task(instance.begin())
        return await self._begin(instance)

    async def _begin(self, instance: Instance) -> Mapping[str, Any]:
        beginning = self._beginnings[instance.id]
        try:
            with _mark_in_use(instance):
                return await asyncio.shield(beginning)
        except Exception as error:
            await self._end(instance, "refused", str(error) if isinstance(error, Fault) else repr(error))
            raise

    async def step(self, instance_id: str, action: Mapping[str, Any], number: int | None) -> Mapping[str, Any]:
        """Act."""
        return await self._use(instance_id, lambda instance: instance.step(action, number))

    async def evaluate(self, instance_id: str, sparse: bool) -> float:
        """Return the score."""
        return await self._use(instance_id, lambda instance: instance.channel.ask("evaluate", sparse=sparse))

    def info(self, instance_id: str) -> Mapping[str, Any]:
        """Describe an instance without asking its environment, which may be busy. Counts as a use."""
        instance = self._find(instance_id)
        with _mark_in_use(instance):
            return {
                "instance_id": instance.id,
                "env_type": self._settings.worlds[instance.world].name,
                "task_id": instance.task.task_id,
                "steps": instance.steps,
                "is_terminated": instance.is_terminated,
            }

    async def release(self, instance_id: str) -> bool:
        """End an instance; False if there is none with that id."""
        instance = self._alive.get(instance_id)
        return instance is not None and await self._end(instance, "released", "it was released")

    async def watch(self) -> None:
        """Release instances that are idle, or whose process is gone, until cancelled."""
        idle_s = self._settings.idle_timeout_s
        while True:
            await asyncio.sleep(min(MOST_LOOKS_S, idle_s / 4))
            for instance in tuple(self._alive.values()):
                if instance.channel.has_ended and not instance.busy:
                    await self._end(instance, "lost", instance.channel.lost or "its process has ended")
                elif not instance.busy and time.monotonic() - instance.used_s > idle_s:
                    await self._end(instance, "idle", f"it was unused for {idle_s:g} s")

    async def close(self) -> None:
        """End all."""
        await asyncio.gather(
            *(self._end(instance, "released", "the server has ended") for instance in tuple(self._alive.values()))
        )

    def _find(self, instance_id: str) -> Instance:
        if not instance_id:
            raise BadRequest("`instance_id` is missing")
        instance = self._alive.get(instance_id)
        if instance is None:
            why = self._gone.get(instance_id, "this server never had it, or was restarted since")
            raise BadRequest(f"there is no instance {instance_id!r}: {why}")
        return instance

    async def _use(self, instance_id: str, ask: Callable[[Instance], Awaitable[T]]) -> T:
        instance = self._find(instance_id)
        try:
            with _mark_in_use(instance):
                return await ask(instance)
        except InstanceLost as fault:
            await self._end(instance, "lost", str(fault))
            raise InstanceLost(f"instance {instance_id!r} is lost: {fault}") from fault

    async def _end(self, instance: Instance, how: Ended, why: str) -> bool:
        if self._alive.pop(instance.id, None) is None:
            return False
        self._beginnings.pop(instance.id, None)
        self._ends[how] += 1
        self._gone[instance.id] = why
        if len(self._gone) > REMEMBERED:
            self._gone.popitem(last=False)
        await instance.channel.end()
        return True


@contextmanager
def _mark_in_use(instance: Instance) -> Iterator[None]:
    instance.busy += 1
    try:
        yield
    finally:
        instance.busy -= 1
        instance.used_s = time.monotonic()
