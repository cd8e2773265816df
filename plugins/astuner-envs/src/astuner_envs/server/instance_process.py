"""The process of an instance: passes requests from a socket, one line of JSON each, to the environment."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import resource
import socket
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Mapping
from io import TextIOWrapper
from typing import Any

from astuner.contract.plain_values import make_plain
from astuner.contract.protocols import EnvironmentTraits, read_traits
from astuner.contract.schema import Message, Task
from astuner.episodes.rollout.environments import EnvironmentFailed, GuardedEnvironment
from astuner.shared.processes import set_limit
from astuner_envs.server.served_environment import World, find_task_error
from astuner_envs.server.settings import Limits

CLOSE_S = 5.0
"""Longest time that an abandoned environment has to close."""
MORE_CPU_S = 5
"""Between the signal that the processor time is used up and the end."""


def serve_instance(channel: socket.socket, world: World, limits: Limits) -> None:
    """Answer until the socket ends, or `close` is requested. Never returns."""
    # What an environment prints goes to the server's log.
    os.dup2(2, 1)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    _set_limits(limits)
    asyncio.run(_InstanceServer(channel, world).lead())


def _set_limits(limits: Limits) -> None:
    set_limit(resource.RLIMIT_CORE, 0)
    set_limit(resource.RLIMIT_CPU, limits.cpu_s, limits.cpu_s + MORE_CPU_S)
    if sys.platform == "linux":
        set_limit(resource.RLIMIT_AS, limits.memory_mb << 20)


class _InstanceServer:
    def __init__(self, channel: socket.socket, world: World) -> None:
        self._channel, self._world = channel, world
        self._environment: GuardedEnvironment | None = None
        self._orders: asyncio.Queue[bytes] = asyncio.Queue()
        self._does: Mapping[str, Callable[[Mapping[str, Any]], Awaitable[Any]]] = {
            "tasks": self._tasks,
            "begin": self._begin,
            "step": self._step,
            "evaluate": self._evaluate,
            "close": self._close,
        }

    async def lead(self) -> None:
        # A thread reads, to notice the end of the server even while the environment blocks.
        threading.Thread(target=self._listen, args=(asyncio.get_running_loop(),), daemon=True).start()
        while line := await self._orders.get():
            order = json.loads(line)
            self._say({**await self._answer(order), "number": order["number"]})
            if order["do"] == "close":
                return
        await self._close({})

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._channel.makefile("rb") as lines:
            for line in lines:
                loop.call_soon_threadsafe(self._orders.put_nowait, line)
        loop.call_soon_threadsafe(self._orders.put_nowait, b"")
        threading.Event().wait(CLOSE_S)
        os._exit(1)

    async def _answer(self, order: Mapping[str, Any]) -> dict[str, Any]:
        try:
            found = await self._does[order["do"]](order)
            return {"found": make_plain(found).value}
        except Exception as error:  # noqa: BLE001  # the boundary for environments
            if (bad := find_task_error(error)) is not None:
                return {"error": str(bad), "bad": True}
            traceback.print_exc()
            text = str(error) if isinstance(error, EnvironmentFailed) else f"{type(error).__name__}: {error}"
            return {"error": text, "bad": False}

    def _say(self, answer: dict[str, Any]) -> None:
        self._channel.sendall(json.dumps(answer).encode() + b"\n")

    async def _tasks(self, order: Mapping[str, Any]) -> Any:
        return self._world.task_ids(order["split"])

    async def _begin(self, order: Mapping[str, Any]) -> Any:
        self._environment = self._world.environment(Task(**order["task"]), order["instance_id"])
        messages = await self._environment.reset()
        return {"messages": messages, "tools": self._environment.tools}

    async def _step(self, order: Mapping[str, Any]) -> Any:
        action: Message = order["action"]
        step = await self._require_environment().step(action)
        return {
            "messages": step.messages,
            "reward": step.reward,
            "done": step.done,
            "info": step.info,
            "tools": self._require_environment().tools,
        }

    async def _evaluate(self, order: Mapping[str, Any]) -> Any:
        guarded = self._require_environment()
        if order["sparse"] and read_traits(guarded.environment, EnvironmentTraits).has_sparse_score:
            guarded = GuardedEnvironment(_SparseEvaluation(guarded.environment), guarded.blame)
        return await guarded.evaluate()

    async def _close(self, order: Mapping[str, Any]) -> Any:
        if self._environment is not None:
            closing = self._environment.environment.close()
            self._environment = None
            if inspect.isawaitable(closing):
                async with asyncio.timeout(CLOSE_S):
                    await closing

    def _require_environment(self) -> GuardedEnvironment:
        if self._environment is None:
            raise RuntimeError("the instance has not begun")
        return self._environment


class _SparseEvaluation:
    """Evaluates an environment for right or wrong only."""

    def __init__(self, environment: Any) -> None:
        self._environment = environment

    async def evaluate(self) -> Any:
        return await self._environment.evaluate(sparse=True)
