"""Which package brings a component that is not installed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

BROUGHT_BY: Mapping[tuple[str, str], str] = {
    ("backbone", "debug"): "astuner-core[rollout]",
    ("backbone", "local"): "astuner-local",
    ("backbone", "verl"): "astuner-verl",
    ("backbone", "trinity"): "astuner-trinity",
    ("engine", "local"): "astuner-local",
    ("engine", "vllm"): "astuner-vllm",
    ("engine", "openai"): "astuner-core[rollout]",
    ("engine", "scripted"): "astuner-core[rollout]",
    ("judge", "math"): "astuner-judges",
    ("judge", "llm"): "astuner-judges[llm]",
    ("judge", "math_and_llm"): "astuner-judges[llm]",
    ("judge", "rubrics_auto_grader"): "astuner-judges[llm]",
    ("judge", "env_service"): "astuner-judges[env]",
    ("judge", "reasoning_gym"): "astuner-judges[reasoning-gym]",
    ("reader", "data_generation"): "astuner-readers[llm]",
    ("reader", "env_service"): "astuner-readers[env]",
    ("reader", "environment_tasks"): "astuner-envs",
    ("reader", "huggingface_dat_repo"): "astuner-readers[hf]",
    ("reader", "reasoning_gym"): "astuner-readers[reasoning-gym]",
    ("reader", "tracing"): "astuner-readers",
    ("environment", "env_service"): "astuner-readers[env]",
    ("environment", "openenv"): "astuner-readers[env]",
    ("environment", "calculator"): "astuner-envs",
    ("environment", "countdown"): "astuner-envs",
    ("environment", "frozen_lake"): "astuner-envs[gymnasium]",
    ("environment", "reasoning_gym"): "astuner-envs[reasoning-gym]",
    ("logger", "mlflow"): "astuner-loggers[mlflow]",
    ("logger", "swanlab"): "astuner-loggers[swanlab]",
    ("logger", "tensorboard"): "astuner-loggers[tensorboard]",
    ("logger", "trackio"): "astuner-loggers[trackio]",
    ("logger", "wandb"): "astuner-loggers[wandb]",
    ("service", "environments"): "astuner-envs",
    ("service", "logview"): "astuner-logview",
    ("command", "quickstart"): "astuner-local",
    ("command", "data"): "astuner-readers",
    ("command", "trace"): "astuner-readers",
    ("command", "judge"): "astuner-judges",
    ("command", "env"): "astuner-envs",
}
"""Requirement by (kind, name). Only words for an error message: nothing is ever imported from here."""


APART: Mapping[str, str] = {"astuner-verl": "astuner-trinity", "astuner-trinity": "astuner-verl"}
"""Packages whose trainers exclude each other, so that each has an environment of its own."""


def own_environment(package: str) -> str | None:
    """Return how to install a package beside one that excludes it; None where there is none, or it is not installed."""
    other = APART.get(package)
    if other is None or not _is_installed(other):
        return None
    return (
        f"{package} excludes {other}, which is installed here. In an environment of its own (python -m venv {package}-env): "
        f"pip install astuner-core {package}. A project runs from either without a change"
    )


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def extras_of(kind: str, name: str, dist: str) -> frozenset[str]:
    """Return the extras of a distribution that one of its components is known to need."""
    known = BROUGHT_BY.get((kind, name))
    if known is None:
        return frozenset()
    requirement = Requirement(known)
    return frozenset(requirement.extras) if canonicalize_name(requirement.name) == canonicalize_name(dist) else frozenset()


def command_for(kind: str, name: str) -> str | None:
    """Return the one command that installs a known component, or None for a name nobody knows."""
    known = BROUGHT_BY.get((kind, name))
    return None if known is None else install_command(known)


def install_command(requirement: str) -> str:
    """Return `pip install …`, quoted where a shell would read the brackets or comparisons."""
    return f"pip install '{requirement}'" if any(mark in requirement for mark in "[]<>!~ ") else f"pip install {requirement}"
