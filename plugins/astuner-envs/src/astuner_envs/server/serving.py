"""Listening, serving, and a clean end."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable

from astuner.contract.errors import UsageError
from astuner.model.http_server import ServerLimits, guard_hosts, listen, make_server
from astuner_envs.server.app import Endpoints
from astuner_envs.server.forking import Forking
from astuner_envs.server.instances import Instances
from astuner_envs.server.settings import Settings

CONNECTIONS = 4096
"""At a time: many episodes play at once, each with a connection or two."""


async def serve(settings: Settings, started: Callable[[str, int], None]) -> None:
    """Serve until SIGINT or SIGTERM; `started` gets host and port once everything is loaded and the port is ours."""
    forking = Forking(settings)
    instances = Instances(settings, forking)
    endpoints = Endpoints(settings, instances)
    listening = _listen(settings)
    try:
        await forking.start()
        endpoints.check(forking.lists_tasks)
        app = guard_hosts(endpoints.build_app(), settings.host)
        server = make_server(app, ServerLimits(max_connections=CONNECTIONS), name="environment server")
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
    try:
        return listen(settings.host, settings.port)
    except OSError as error:
        raise UsageError(
            f"astuner env serve: cannot listen on {settings.host}:{settings.port}: {error.strerror or error}. Choose another "
            "--port, or 0 for a free one; --host is an address of this machine"
        ) from error
