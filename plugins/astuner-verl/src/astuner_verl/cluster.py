"""The Ray cluster of a run: its own, or the one that `RAY_ADDRESS` names."""

from __future__ import annotations

import os
import secrets
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from attrs import frozen

from astuner.contract.errors import ConfigError, Problem, RunFailed, UsageError
from astuner.contract.protocols import RunInfo
from astuner.shared.processes import export_variables, gpu_count
from astuner.shared.services.ray import ADDRESS, DIRECTORY, check_answers, describe_unreachable, ray, read_variables_again
from astuner.shared.services.running import ServiceHost, run_services
from astuner_verl.process_environment import WANTED, Device, build_environment

CLIENT = "ray://"
KEY = "VLLM_API_KEY"
FIRST_TRL_WITHOUT_VALUE_HEAD = "1.13"
"""verl's workers import `AutoModelForCausalLMWithValueHead` of any TRL that is installed."""
CPUS_A_WORKER = 3
"""CPUs that verl's placement groups request per GPU."""


@frozen(kw_only=True)
class Cluster:
    """A cluster that this process is attached to."""

    device: Device
    gpus_per_node: int
    """Of the node with the fewest; 0 without an accelerator."""
    logs: Path | None
    """The logs of its processes, if it is on this machine."""


def check_versions() -> None:
    """Raise `UsageError` for an unsupported verl, and for a TRL that keeps it from starting; imports nothing heavy."""
    from importlib.metadata import PackageNotFoundError, version

    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

    try:
        found = version("verl")
    except PackageNotFoundError as error:
        raise UsageError(f"the backbone 'verl' needs verl, which is not installed: pip install '{WANTED}'") from error
    if not SpecifierSet(WANTED.removeprefix("verl")).contains(found, prereleases=True):
        raise UsageError(f"verl {found} is installed; the backbone 'verl' drives {WANTED}: pip install '{WANTED}'")
    with suppress(PackageNotFoundError):
        if Version(beside := version("trl")) >= Version(FIRST_TRL_WITHOUT_VALUE_HEAD):
            raise UsageError(
                f"trl {beside} is installed, beside which no worker of verl {found} starts, whether it uses TRL or not: "
                f"pip uninstall trl, or pip install 'trl<{FIRST_TRL_WITHOUT_VALUE_HEAD}'"
            )


def check_address() -> None:
    """Raise `UsageError` if the environment names a cluster through a proxy."""
    address = os.environ.get(ADDRESS, "")
    if address.startswith(CLIENT):
        raise UsageError(
            f"{ADDRESS} is {address}: rollouts are played in this process, so it has to run inside of the "
            "cluster: ray job submit --address http://HEAD:8265 -- astuner run …, or start it on a node and set "
            f"{ADDRESS}=auto (see docs/verl.md)"
        )


@contextmanager
def attach(run: RunInfo, place: ServiceHost) -> Iterator[Cluster]:
    """Attach this process to a cluster; if none is named, start one that ends with the block."""
    check_versions()
    check_address()
    with ExitStack() as stack:
        if not os.environ.get(ADDRESS):
            stack.enter_context(run_services({"ray": ray(run)}, place))
        yield _attach(os.environ[ADDRESS], stack)


def _attach(address: str, stack: ExitStack) -> Cluster:
    import ray

    check_answers(address)
    read_variables_again()
    device: Device = "cuda" if gpu_count() else "cpu"
    namespace = f"astuner-{secrets.token_hex(4)}"
    try:
        _connect(address, device, namespace)
    except (ConnectionError, TimeoutError, ValueError, RuntimeError) as error:
        raise RunFailed(describe_unreachable(address, error)) from error
    stack.callback(_detach)
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    accelerated = [node for node in nodes if any(name.startswith("accelerator_type:") for name in node)]
    own = DIRECTORY in os.environ
    found: Device = "cuda" if accelerated else "cpu"
    if found != device and not own:
        # The driver may run on a node without GPUs, such as a head node.
        _detach()
        device = found
        _connect(address, device, namespace)
    stack.enter_context(export_variables(build_environment(device)))
    home = os.environ.get(DIRECTORY)
    return Cluster(
        device=device,
        gpus_per_node=int(min(node.get("GPU", 0) for node in accelerated)) if device == "cuda" else 0,
        logs=Path(home, "session_latest", "logs") if home else None,
    )


def _connect(address: str, device: Device, namespace: str) -> None:
    """Attach this process; on SIGTERM it still does what its command does, where Ray would end it."""
    import ray

    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(
            address=address,
            # Engines are asked through Ray: nobody needs the HTTP server that verl starts with each vLLM, or gets its key.
            runtime_env={"env_vars": {KEY: os.environ.get(KEY) or secrets.token_hex(32), **build_environment(device)}},
            namespace=namespace,
            log_to_driver=False,
            configure_logging=False,
        )
    finally:
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def check_room(native: dict[str, Any], device: Device) -> None:
    """Raise `ConfigError` if the cluster has less than the run requests: Ray would wait forever."""
    import ray

    nodes, workers = native["trainer"]["nnodes"], native["trainer"]["n_gpus_per_node"]
    there = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    offered = [int(node.get("GPU", 0)) for node in there]
    enough = sum(node.get("GPU", 0) >= workers and node.get("CPU", 0) >= CPUS_A_WORKER * workers for node in there)
    if enough < nodes:
        what = "GPUs" if device == "cuda" else "places for workers"
        more = "or add nodes" if device == "cuda" else "or start Ray with --num-gpus=N, by which verl counts its workers"
        message = (
            f"{nodes} node(s) with {workers} {what} each are asked for; the cluster has {len(offered)} node(s) with "
            f"{', '.join(map(str, offered)) or 'none'}, and each worker takes {CPUS_A_WORKER} of Ray's CPUs too. Lower "
            f"n_gpus_per_node or nnodes, {more}."
        )
        raise ConfigError([Problem(key="astuner.trainer_common.n_gpus_per_node", message=message)])


def _detach() -> None:
    import ray

    with suppress(Exception):
        ray.shutdown()
