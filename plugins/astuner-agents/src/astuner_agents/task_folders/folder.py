"""One task folder: what both formats say of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from attrs import field, frozen

from astuner.contract.errors import DataError
from astuner.settings.config.yaml_bounds import load_plain_yaml


@frozen(kw_only=True)
class TaskFolder:
    """A task, its files by paths relative to its folder, and what it needs. None where it says nothing."""

    format: Literal["harbor", "terminal-bench"]
    directory: str
    """The folder, absolute."""
    instruction: str
    tests: str | None
    """The folder with the tests."""
    test_script: str
    """The script that runs them."""
    solution: str | None
    """The script that solves the task."""
    dockerfile: str | None = None
    compose_file: str | None = None
    docker_image: str | None = None
    """A ready image, in place of the Dockerfile."""
    workdir: str | None = None
    """Where commands start; by default the image decides."""
    user: str | None = None
    """The user of the agent's commands."""
    agent_timeout_s: float | None = None
    verifier_timeout_s: float | None = None
    build_timeout_s: float | None = None
    cpus: float | None = None
    memory_mb: int | None = None
    storage_mb: int | None = None
    gpus: int | None = None
    network: str = "public"
    """`public`, `no-network`, or `allowlist`."""
    allowed_hosts: list[str] = field(factory=list)
    """Hosts that an allowlist names."""
    environment: dict[str, str] = field(factory=dict)
    """Variables of the agent's commands, as written: `${NAME}` and `${NAME:-default}` stand for those of this machine."""
    verifier_environment: dict[str, str] = field(factory=dict)
    """Variables of the tests, as written."""
    verifier_mode: Literal["shared", "separate"] = "shared"
    """Whether the tests run where the agent worked, or in a container of their own."""
    verifier_user: str | None = None
    """The user of the tests."""
    solution_environment: dict[str, str] = field(factory=dict)
    """Variables of the solution, as written."""
    parser: str = "pytest"
    """For Terminal-Bench: what reads the output of the tests."""
    services: list[str] = field(factory=list)
    """The services of the compose file."""
    unplayed: list[str] = field(factory=list)
    """Keys of the task that are set, and that playing it does not act on."""
    about: Mapping[str, Any] = field(factory=dict)
    """What else the task says of itself: authors, difficulty, tags."""


def read_text(file: Path) -> str:
    """Return a file's text, not empty; raises `DataError`."""
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(f"{file} is missing: a task has one") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{file} cannot be read as UTF-8: {error}") from error
    if not text.strip():
        raise DataError(f"{file} is empty")
    return text


def read_services(directory: Path, compose_file: str | None) -> list[str]:
    """Return the names of the services of a compose file; raises `DataError`."""
    if compose_file is None:
        return []
    try:
        found = load_plain_yaml(read_text(directory / compose_file))
    except yaml.YAMLError as error:
        raise DataError(f"{directory / compose_file} is not valid YAML: {error}") from error
    services = found.get("services") if isinstance(found, Mapping) else None
    return [str(name) for name in services] if isinstance(services, Mapping) else []


def find_file(directory: Path, *names: str) -> str | None:
    """Return the first of these files or folders that exists, relative to the task's folder; None if none does."""
    return next((name for name in names if (directory / name).exists()), None)


def require_file(directory: Path, *names: str) -> str:
    """Return the first of these files that exists; raises `DataError` if none does."""
    found = find_file(directory, *names)
    if found is None:
        raise DataError(f"{directory} has no {' or '.join(names)}, which runs the task's tests")
    return found
