"""Which sockets processes listen on, asked of the system: what a program was told says little about what it does."""

from __future__ import annotations

import ipaddress
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

import psutil

LOOK_S = 0.5


def find_listeners(processes: Iterable[psutil.Process]) -> dict[str, str]:
    """Return the network sockets that processes listen on, `ADDRESS:PORT`, each with the first words of its process."""
    found = {}
    for process in processes:
        with suppress(psutil.Error):
            what = " ".join(process.cmdline())[:120] or process.name()
            for one in process.net_connections(kind="tcp"):
                if one.status == psutil.CONN_LISTEN:
                    found[f"{one.laddr.ip}:{one.laddr.port}"] = what
    return found


def find_reachable(listeners: dict[str, str]) -> dict[str, str]:
    """Return those that other machines reach."""
    return {address: what for address, what in listeners.items() if not _is_loopback(address.rpartition(":")[0])}


def watch_listeners(
    running: subprocess.Popen[bytes], list_processes: Callable[[], Iterable[psutil.Process]], limit_s: float
) -> dict[str, str]:
    """Wait for a program to end, and return all sockets that its processes listened on meanwhile."""
    found: dict[str, str] = {}
    until = time.monotonic() + limit_s
    while running.poll() is None:
        assert time.monotonic() < until, f"still running after {limit_s:g} s"
        found |= find_listeners(list_processes())
        time.sleep(LOOK_S)
    return found


def _is_loopback(ip: str) -> bool:
    address = ipaddress.ip_address(ip)
    inner = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (inner or address).is_loopback
