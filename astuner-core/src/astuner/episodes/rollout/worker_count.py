"""How many processes play the episodes of a run, and why."""

from __future__ import annotations

import os

from attrs import frozen

from astuner.contract.errors import ConfigError, Problem
from astuner.contract.protocols import RunInfo
from astuner.settings.config.model import Config
from astuner.settings.plugins.catalog import Catalog
from astuner.shared.install_hints import install_command, is_installed
from astuner.shared.known_packages import read_known_packages

EPISODES = 64
"""Concurrent episodes from which one process may be too few."""
CORES = 4
EPISODES_PER_WORKER = 32
MOST = 16
KEY = "astuner.rollout.players"
POOL = "rollout_workers"
"""The function that opens several workers; it has a package of its own."""


@frozen
class WorkerCount:
    """The number of rollout workers."""

    count: int
    why: str
    """The reason, as users read it."""
    lacking: bool = False
    """Whether only a package is missing for more."""


def count_cores() -> int:
    """Return how many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def choose_count(config: Config, *, reachable: bool, cores: int, catalog: Catalog) -> WorkerCount:
    """Return what `rollout.players` means; `reachable` says whether other processes reach the engine without this one."""
    rollout = config.rollout
    if rollout.players != "auto":
        return WorkerCount(rollout.players, "as configured")
    alone = find_obstacle(config)
    if alone is not None:
        return WorkerCount(1, alone)
    if not reachable:
        return WorkerCount(1, "every request goes through the run's own process, which has the engine")
    if rollout.max_env_worker < EPISODES:
        return WorkerCount(1, f"{rollout.max_env_worker} concurrent episodes: one process is enough for fewer than {EPISODES}")
    if cores < CORES:
        return WorkerCount(1, f"{cores} cores: more than one worker pays from {CORES} on")
    count = min(cores // 2, rollout.max_env_worker // EPISODES_PER_WORKER, MOST)
    why = f"{cores} cores, {rollout.max_env_worker} concurrent episodes"
    lack = find_lack(catalog)
    if lack is not None:
        return WorkerCount(1, f"{why}: {count} rollout workers would pay; they {lack}", lacking=True)
    return WorkerCount(count, why)


def find_lack(catalog: Catalog) -> str | None:
    """Return what is to be said of several workers if nothing opens them, with the remedy; None if something does."""
    if catalog.offers("function", POOL):
        return None
    package = read_known_packages().package_of("function", POOL) or POOL
    if is_installed(package):
        return f"come with {package}, which plugins.disabled leaves out"
    return f"come with {package}, which is not installed: {install_command(package)}"


def find_obstacle(config: Config) -> str | None:
    """Return why a configuration can be played by one process only; None if it can be played by several."""
    if config.gateway.public_url is not None:
        return "gateway.public_url is the address of one gateway, and each worker has its own"
    if config.gateway.port != 0:
        return "gateway.port is a port of one gateway, and each worker has its own"
    return None


def check_count(run_info: RunInfo, chosen: WorkerCount) -> None:
    """Raise `ConfigError` for several workers if only one is possible."""
    if chosen.count == 1:
        return
    obstacle = find_obstacle(run_info.config)
    if obstacle is None and run_info.conf is None:
        obstacle = "rollout workers plan the run again from its YAML, and this run has none"
    if obstacle is not None:
        message = f"{chosen.count} rollout workers are not possible: {obstacle}. Set it to 1."
        raise ConfigError([Problem(key=KEY, message=message)])
