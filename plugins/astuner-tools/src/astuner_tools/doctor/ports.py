"""Whether the ports that a configuration names are free."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from astuner.settings.config.model import Config
from astuner_tools.doctor.rows import Row


def port_rows(config: Config) -> Iterator[Row]:
    """Yield each port, tested by briefly listening on it."""
    gateway, server = config.gateway, config.debug.debug_vllm_port
    what = "gateway.port"
    if reason := _find_refusal(gateway.host, gateway.port):
        detail = f"{gateway.host}:{gateway.port}: {reason}"
        yield Row(area="ports", what=what, status="broken", detail=detail, remedy="set gateway.port: 0, which takes a free one")
    else:
        free = f"{gateway.host}:{gateway.port} is free" if gateway.port else f"a free one of {gateway.host}"
        yield Row(area="ports", what=what, detail=free)
    what = "debug.debug_vllm_port"
    if reason := _find_refusal("127.0.0.1", server):
        remedy = "fine if it is your inference server; otherwise set another"
        yield Row(area="ports", what=what, status="warning", detail=f"127.0.0.1:{server}: {reason}", remedy=remedy)
    else:
        yield Row(area="ports", what=what, detail=f"127.0.0.1:{server} is free")


def _find_refusal(host: str, port: int) -> str | None:
    """Return why the port cannot be listened on, or None."""
    try:
        (family, kind, protocol, _, address), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        with socket.socket(family, kind, protocol) as probe:
            # As servers do: a port that only waits for old connections to end counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        return error.strerror or str(error)
    return None
