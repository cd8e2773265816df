"""The service `ray`: a Ray cluster of one machine, for this run alone."""

from __future__ import annotations

import importlib
import os
import secrets
import socket
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astuner.config.model import Ready, Service
from astuner.errors import RunFailed, UsageError
from astuner.processes.gpus import VISIBLE, gpu_count
from astuner.processes.ports import LOOPBACK, free_port
from astuner.services.definition import Definition

if TYPE_CHECKING:
    from astuner.protocols import RunInfo

ADDRESS = "RAY_ADDRESS"
DIRECTORY = "ASTUNER_RAY_DIRECTORY"
"""Where the private cluster of this run keeps its logs, below `session_latest/logs`."""
LEAST_CPUS = 16
"""Ray's CPUs are a count of places, not of cores: a trainer's placement group must find some on a small machine too."""
CPUS_A_WORKER = 4
PLACES = 4
"""On a machine without a GPU: so many workers may ask for one each, since trainers count their workers by Ray's GPUs."""
START_S = 180.0
ANSWER_S = 10.0


def check_answers(address: str) -> None:
    """Raise `RunFailed` where no cluster listens at an address: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_S).close()
    except OSError as error:
        raise RunFailed(unreachable(address, error)) from error


def read_key_again() -> None:
    """Let Ray see the cluster's key: it reads the environment once, and an agent's own code may have imported it before."""
    raylet: Any = importlib.import_module("ray._raylet")
    raylet.Config.initialize("")
    raylet.AuthenticationTokenLoader.instance().reset_cache()


def unreachable(address: str, error: Exception) -> str:
    """Say what to do about a cluster that does not answer."""
    return (
        f"{ADDRESS} is {address}, and no Ray cluster answers there: {error}. Start it (ray start --head), or unset {ADDRESS} for "
        "a cluster of this run alone"
    )


def ray(run_info: RunInfo) -> Definition:
    """Define a private cluster, or none where the environment names one already."""
    if address := os.environ.get(ADDRESS):
        return Definition(service=None, notice=f"service 'ray': {ADDRESS} is set, so the cluster at {address} is used")
    if find_spec("ray") is None:
        raise UsageError(
            "--with-ray: Ray is not installed: pip install ray (a backbone that needs Ray brings the version that it needs)"
        )
    port = free_port()
    # Ray's sockets lie below it, and a socket's path may have about 100 characters: no run directory is short enough.
    short = "/tmp" if Path("/tmp").is_dir() else tempfile.gettempdir()
    scratch = Path(short, f"astuner-ray-{secrets.token_hex(4)}")
    # With both given Ray does not look for a token file in the home directory, which other clusters write.
    auth = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    gpus = gpu_count()
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", f"--port={port}"]
    command += [f"--node-ip-address={LOOPBACK}", f"--temp-dir={scratch}", "--include-dashboard=false", "--disable-usage-stats"]
    command += [
        "--min-worker-port=0",
        "--max-worker-port=0",
        f"--num-cpus={max(LEAST_CPUS, os.cpu_count() or 1, CPUS_A_WORKER * (gpus or PLACES))}",
    ]
    if gpus == 0:
        # Ray counts against the variable with which GPUs are hidden, and there is nothing to hide from places.
        command = ["/usr/bin/env", "-u", VISIBLE, *command, f"--num-gpus={PLACES}"]
    if find_spec("grpc") is not None:
        # Ray's client server starts where it can, on one port for all clusters of a machine.
        command.append(f"--ray-client-server-port={free_port()}")
    service = Service(
        command=tuple(command),
        env={**auth, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONUNBUFFERED": "1"},
        ready=Ready(port=port, log="Ray runtime started"),
        timeout_s=START_S,
    )
    return Definition(service=service, exports={ADDRESS: f"{LOOPBACK}:{port}", DIRECTORY: str(scratch), **auth}, scratch=scratch)
