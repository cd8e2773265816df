"""Listening, serving, and a clean end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn

from astuner.errors import UsageError
from astuner_envs.server.app import Endpoints
from astuner_envs.server.forking import Forking
from astuner_envs.server.instances import Instances
from astuner_envs.server.settings import Settings

LONGEST_IDLE_S = 600
"""For an idle connection; clients give theirs up earlier."""


class _Server(uvicorn.Server):
    """Leaves signals to us: instances end before the process does."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(settings: Settings, started: Callable[[str, int], None]) -> None:
    """Serve until SIGINT or SIGTERM; `started` gets host and port once everything is loaded and the port is ours."""
    forking = Forking(settings)
    instances = Instances(settings, forking)
    endpoints = Endpoints(settings, instances)
    listening = _listen(settings)
    try:
        await forking.start()
        endpoints.check(forking.lists_tasks)
        config = uvicorn.Config(
            endpoints.build_app(),
            log_config=None,
            log_level="warning",
            lifespan="off",
            timeout_graceful_shutdown=2,
            timeout_keep_alive=LONGEST_IDLE_S,
            backlog=2048,
        )
        server = _Server(config)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, setattr, server, "should_exit", True)
        watching = asyncio.create_task(instances.watch())
        started(settings.host, listening.getsockname()[1])
        try:
            await server.serve(sockets=[listening])
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await instances.close()
    finally:
        listening.close()
        await forking.close()


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        raise UsageError(
            f"astuner env serve: cannot listen on {settings.host}:{settings.port}: {error.strerror or error}. Choose another "
            "--port, or 0 for a free one; --host is an address of this machine"
        ) from error
    listening.setblocking(False)
    listening.listen(2048)
    return listening
