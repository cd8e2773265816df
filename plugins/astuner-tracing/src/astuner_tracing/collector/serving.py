"""The collector as a program: it listens, reports its address, and ends with everything on disk."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from pathlib import Path

from attrs import frozen

from astuner.contract.errors import DataError, PluginError, UsageError
from astuner.model.http_server import ServerLimits, guard_hosts, is_loopback, listen, make_server
from astuner.shared.install_hints import install_command
from astuner_tracing.collector.app import CollectorCounts, make_app
from astuner_tracing.collector.bodies import check_installed
from astuner_tracing.collector.store import TraceFile

REQUESTS_AT_ONCE = 64
"""Further ones are answered 503, after which OTLP's clients retry. Idle connections do not count."""
LIMITS = ServerLimits(max_connections=1024)


@frozen(kw_only=True)
class Collector:
    """What is served, and how."""

    out: Path
    host: str = "127.0.0.1"
    port: int = 4318
    """0 takes a free port."""
    token: str | None = None
    max_body_bytes: int = 16 << 20
    """Of a request, decompressed."""
    rotate_bytes: int | None = 256 << 20
    sync_s: float = 1.0
    limits: ServerLimits = LIMITS

    def serve(self, started: Callable[[str], None]) -> CollectorCounts:
        """Serve until the process is interrupted or terminated; `started` is called with the address. Returns the counts."""
        if not is_loopback(self.host) and not self.token:
            raise UsageError(
                f"--host {self.host} is reached from other machines, and there is no token: set --token, or ASTUNER_TRACE_TOKEN"
            )
        try:
            import httptools  # noqa: F401 - asked for only
            import starlette  # noqa: F401
            import uvicorn  # noqa: F401
        except ImportError as error:
            raise PluginError(
                f"the collector needs httptools, starlette and uvicorn ({error}): {install_command('astuner-tracing')}"
            ) from error
        check_installed()
        listening = _listen(self.host, self.port)
        collected = CollectorCounts()
        try:
            file = TraceFile(self.out, rotate_bytes=self.rotate_bytes, sync_s=self.sync_s)
            try:
                asyncio.run(self._serve(listening, file, collected, started))
            finally:
                file.close()
        except OSError as error:
            raise DataError(f"--out {self.out}: cannot be written any more: {error.strerror or error}") from error
        finally:
            listening.close()
        return collected

    async def _serve(
        self, listening: socket.socket, file: TraceFile, collected: CollectorCounts, started: Callable[[str], None]
    ) -> None:
        async def sync_at_intervals() -> None:
            while True:
                await asyncio.sleep(self.sync_s)
                try:
                    await asyncio.to_thread(file.sync)
                except OSError:
                    # Data that was acknowledged may be lost: better to end visibly than to continue.
                    server.should_exit = True
                    raise

        app = make_app(
            file,
            collected,
            token=self.token,
            max_body_bytes=self.max_body_bytes,
            at_once=REQUESTS_AT_ONCE,
            body_timeout_s=self.limits.body_timeout_s,
        )
        guarded = guard_hosts(app, self.host)
        server = make_server(guarded, self.limits, name="trace collector")
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, server.handle_exit, number, None)
        syncing = asyncio.create_task(sync_at_intervals())
        host, port = listening.getsockname()[:2]
        started(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        try:
            await server.serve(sockets=[listening])
        finally:
            if syncing.done():
                await syncing
            syncing.cancel()


def _listen(host: str, port: int) -> socket.socket:
    try:
        return listen(host, port)
    except OSError as error:
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror or error}; --port 0 takes a free one") from error
