"""What an environment of `verifiers` needs of this machine, checked before a run begins."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from astuner.contract.errors import DataError
from astuner_envs.verifiers.loading import get_roles

CONTAINER_PROGRAMS = ("docker", "podman", "apptainer")
"""Runtimes of `verifiers` that are named for the program that they start."""
REMOTE_SANDBOXES = {"e2b": ("e2b", "E2B_API_KEY"), "modal": ("modal", None), "prime": ("prime_sandboxes", "PRIME_API_KEY")}
"""Runtimes that rent a machine: the module of each, and the variable with its key."""
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def check_requirements(environment: Any, key: str) -> None:
    """Raise `DataError` with everything that keeps the environment from being played here."""
    if problems := [f"{key}.{problem}" for problem in _find_problems(environment)]:
        raise DataError("\n".join(problems))


def _find_problems(environment: Any) -> Iterator[str]:
    config = environment.config
    harnesses: Mapping[str, Any] = config.agent_harnesses()
    yield from _find_retries("retries", config.retries)
    for role, spec in get_roles(config).items():
        yield from _find_retries(f"{role}.retries", spec.retries)
        yield from _find_pairing_problem(environment, role, spec, harnesses[role])
        yield from _find_model_problem(role, spec)
    for number, judge in enumerate(config.taskset.task.judges):
        yield from _find_missing_key(f"taskset.task.judges[{number}]", judge)


def _find_retries(place: str, retries: Any) -> Iterator[str]:
    if retries.max_retries or any(rule.max_retries for rule in retries.rules):
        yield (
            f"{place}: verifiers would play a rollout again within the episode, and the calls of the abandoned one would be "
            "trained too; remove it: rollout.max_retries plays whole episodes again"
        )


def _find_pairing_problem(environment: Any, role: str, spec: Any, harness_config: Any) -> Iterator[str]:
    from verifiers.v1 import load_harness
    from verifiers.v1.utils.compile import validate_pairing

    kind = type(environment.taskset).task_type()
    tools = [*kind.toolsets(environment.config.taskset.task), *environment.taskset.toolsets(environment.config.taskset)]
    harness = load_harness(harness_config)
    try:
        validate_pairing(harness, kind, spec.runtime, tools=tools)
    except ValueError as error:
        yield f"{role}: {error} (`--env.{role}` is {role} here)"
    if missing := _find_missing_sandbox(spec.runtime.type):
        yield f"{role}.runtime.type: {missing}; an agent that needs no sandbox plays with {{type: subprocess}}"
    if spec.runtime.type == "subprocess" and type(harness).__module__.startswith("verifiers.") and shutil.which("uv") is None:
        # verifiers would download uv, and install it for the user.
        yield (
            f"{role}.harness: the programs of '{harness_config.id}' are started with uv, which is not on PATH: pip install uv, "
            "in an environment that is activated"
        )


def _find_missing_sandbox(runtime: str) -> str | None:
    """Return what a runtime lacks on this machine; None if it lacks nothing that is known before it starts."""
    if runtime in CONTAINER_PROGRAMS and shutil.which(runtime) is None:
        return f"'{runtime}' starts containers with the program {runtime}, which is not on PATH: install it"
    module, variable = REMOTE_SANDBOXES.get(runtime, ("", None))
    if module and find_spec(module) is None:
        return f"'{runtime}' needs the package {module}: pip install 'verifiers[{runtime}]'"
    if variable and not os.environ.get(variable) and not (runtime == "prime" and _load_prime_key()):
        return f"'{runtime}' rents a sandbox for each episode and needs the environment variable {variable}"
    return None


def _load_prime_key() -> str | None:
    """Return the key that `prime login` has stored, if it has."""
    from verifiers.v1.utils.prime import load_prime_config

    key: str | None = load_prime_config().get("api_key")
    return key


def _find_model_problem(role: str, spec: Any) -> Iterator[str]:
    if spec.client is not None:
        yield from _find_missing_key(f"{role}.client", spec.client)
    elif spec.model is not None:
        yield (
            f"{role}.model: '{spec.model}' is another model than the one under training, so it needs an endpoint: set "
            f"{role}.client (base_url, api_key_var), or remove the model"
        )


def _find_missing_key(place: str, client: Any) -> Iterator[str]:
    from verifiers.v1.configs.client import resolve_api_key

    host = urlsplit(client.base_url).hostname or ""
    if host not in LOOPBACK and not os.environ.get(client.api_key_var) and resolve_api_key(client) == "EMPTY":
        yield f"{place}: {client.base_url} needs a key: set the environment variable {client.api_key_var}"
