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

from astuner.contract.errors import RunFailed, UsageError
from astuner.settings.config.model import Ready, Service
from astuner.shared.processes.gpus import VISIBLE, gpu_count
from astuner.shared.processes.ports import LOOPBACK, SOCKETS, free_port
from astuner.shared.services import Definition

if TYPE_CHECKING:
    from astuner.contract.protocols import RunInfo

ADDRESS = "RAY_ADDRESS"
DIRECTORY = "ASTUNER_RAY_DIRECTORY"
"""The directory of this run's private cluster; its logs are in `session_latest/logs`."""
LEAST_CPUS = 16
"""Ray's CPUs are slots, not cores: a trainer's placement group needs enough even on a small machine."""
CPUS_A_WORKER = 4
PLACES = 4
"""Number of GPUs that Ray reports on a machine without one, since trainers allocate their workers by Ray's GPUs."""
START_S = 180.0
ANSWER_S = 10.0
CLUSTERS = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""Whether Ray replaces 127.0.0.1 by an address of the network, on any system: then each of its servers listens on all of them."""


def check_answers(address: str) -> None:
    """Raise `RunFailed` if no cluster listens at an address: Ray itself would retry for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S).close()
    except OSError as error:
        raise RunFailed(describe_unreachable(address, error)) from error


def read_variables_again() -> None:
    """Make Ray reload key and `CLUSTERS`: it reads the environment once, and an agent's code may have imported it before."""
    raylet: Any = importlib.import_module("ray._raylet")
    raylet.Config.initialize("")
    raylet.AuthenticationTokenLoader.instance().reset_cache()
    constants: Any = importlib.import_module("ray._private.ray_constants")
    constants.ENABLE_RAY_CLUSTER = constants.env_bool(CLUSTERS, not constants.IS_WINDOWS_OR_OSX)


def describe_unreachable(address: str, error: Exception) -> str:
    """Return an error text for a cluster that does not answer."""
    return (
        f"{ADDRESS} is {address}, and no Ray cluster answers there: {error}. Start it (ray start --head), or unset {ADDRESS} for "
        "a cluster of this run alone"
    )


def ray(run_info: RunInfo) -> Definition:
    """Define a private cluster, or none if the environment names one already."""
    if address := os.environ.get(ADDRESS):
        return Definition(service=None, notice=f"service 'ray': {ADDRESS} is set, so the cluster at {address} is used")
    if find_spec("ray") is None:
        raise UsageError(
            "--with-ray: Ray is not installed: pip install ray (a backbone that needs Ray brings the version that it needs)"
        )
    port = free_port()
    # It holds Ray's sockets, whose paths are limited to about 100 characters: a run directory may be too long.
    short = "/tmp" if Path("/tmp").is_dir() else tempfile.gettempdir()
    scratch = Path(short, f"astuner-ray-{secrets.token_hex(4)}")
    # With both set, Ray ignores the token file in the home directory, which other clusters write.
    shared = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), CLUSTERS: "0", **SOCKETS}
    gpus = gpu_count()
    cpus = max(LEAST_CPUS, os.cpu_count() or 1, CPUS_A_WORKER * (gpus or PLACES))
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", f"--port={port}", f"--num-cpus={cpus}"]
    command += [f"--temp-dir={scratch}", "--include-dashboard=false", "--min-worker-port=0", "--max-worker-port=0"]
    if gpus == 0:
        # Ray checks --num-gpus against the variable that hides GPUs, so the variable must be unset.
        command = ["/usr/bin/env", "-u", VISIBLE, *command, f"--num-gpus={PLACES}"]
    if find_spec("grpc") is not None:
        # By default Ray's client server uses the same port for all clusters of a machine.
        command.append(f"--ray-client-server-port={free_port()}")
    service = Service(
        command=tuple(command),
        # Nothing is drained at its end: the run has no more work for it.
        env={**shared, "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0", "RAY_USAGE_STATS_ENABLED": "0", "PYTHONUNBUFFERED": "1"},
        ready=Ready(port=port, log="Ray runtime started"),
        timeout_s=START_S,
    )
    exports = {ADDRESS: f"{LOOPBACK}:{port}", DIRECTORY: str(scratch), **shared}
    return Definition(service=service, exports=exports, scratch=scratch)
