"""The format of Harbor: `task.toml`, `instruction.md`, `environment/`, `tests/`, `solution/`."""

from __future__ import annotations

import itertools
import re
import tomllib
from pathlib import Path

from astuner.contract.errors import DataError
from astuner.contract.plain_values import make_plain
from astuner_agents.task_folders.folder import TaskFolder, find_file, read_services, read_text, require_file
from astuner_agents.task_folders.table import Table

MARK = "task.toml"
VERIFIER_TIMEOUT_S = BUILD_TIMEOUT_S = 600.0
"""Harbor's own, where a task sets none."""
CANARY = re.compile(r"<!--.*canary.*-->|#.*canary.*", re.IGNORECASE)
MEGABYTES = {"K": 1 / 1024, "M": 1.0, "G": 1024.0}


def read_harbor(directory: Path) -> TaskFolder:
    """Read a folder; raises `DataError` with its file and key. Keys that this does not know are left alone, as Harbor does."""
    file = directory / MARK
    try:
        table = Table(file, tomllib.loads(read_text(file)))
    except tomllib.TOMLDecodeError as error:
        raise DataError(f"{file} is not valid TOML: {error}") from error
    if table.values.get("steps"):
        raise table.blame("steps", "tasks of several steps are not supported; leave the folder out with `exclude`")
    agent, verifier, environment = (table.section(name) for name in ("agent", "verifier", "environment"))
    if environment.values.get("os", "linux") not in ("linux", "Linux", "LINUX"):
        raise environment.blame("os", f"only linux is supported, not {environment.values['os']!r}; leave it out with `exclude`")
    separate = verifier.choice("environment_mode", ("shared", "separate")) or (
        "separate" if verifier.values.get("environment") else "shared"
    )
    compose_file = find_file(directory, "environment/docker-compose.yaml", "environment/docker-compose.yml")
    unplayed = [
        f"environment.{name}"
        for name in ("gpus", "healthcheck", "mcp_servers", "skills_dir", "tpu")
        if environment.values.get(name)
    ]
    unplayed += [name for name in ("artifacts",) if table.values.get(name)]
    unplayed += [f"verifier.{name}" for name in ("collect",) if verifier.values.get(name)]
    return TaskFolder(
        format="harbor",
        directory=str(directory),
        instruction=strip_canary(read_text(directory / "instruction.md")),
        tests=find_file(directory, "tests"),
        test_script=require_file(directory, "tests/test.sh"),
        solution=find_file(directory, "solution/solve.sh"),
        dockerfile=find_file(directory, "environment/Dockerfile"),
        compose_file=compose_file,
        docker_image=environment.text("docker_image"),
        workdir=environment.text("workdir"),
        user=_read_user(agent),
        agent_timeout_s=agent.number("timeout_sec"),
        verifier_timeout_s=verifier.number("timeout_sec", VERIFIER_TIMEOUT_S),
        build_timeout_s=environment.number("build_timeout_sec", BUILD_TIMEOUT_S),
        cpus=environment.number("cpus"),
        memory_mb=_read_size(environment, "memory"),
        storage_mb=_read_size(environment, "storage"),
        gpus=environment.whole("gpus"),
        network=_read_network(environment),
        allowed_hosts=environment.texts("allowed_hosts"),
        environment=environment.variables("env"),
        verifier_environment=verifier.variables("env"),
        verifier_mode="separate" if separate == "separate" else "shared",
        verifier_user=_read_user(verifier),
        solution_environment=table.section("solution").variables("env"),
        services=read_services(directory, compose_file),
        unplayed=unplayed,
        about=make_plain({**table.section("metadata").values, **table.section("task").values}).value,
    )


def strip_canary(text: str) -> str:
    """Return an instruction without the comments at its start that mark a benchmark: Harbor does not show them to agents."""
    lines = text.splitlines(keepends=True)
    marks = list(itertools.takewhile(lambda line: CANARY.fullmatch(line.strip()), lines))
    return "".join(lines[len(marks) :]).lstrip("\n") if marks else text


def _read_user(section: Table) -> str | None:
    user = section.values.get("user")
    return str(user) if isinstance(user, int) and not isinstance(user, bool) else section.text("user")


def _read_size(environment: Table, name: str) -> int | None:
    """Return megabytes from `NAME_mb`, or from the older `NAME = "2G"`."""
    found, older = environment.whole(f"{name}_mb"), environment.text(name)
    if found is not None or older is None:
        return found
    match = re.fullmatch(r"([\d.]+)\s*([KMG])", older.strip().upper())
    if match is None:
        raise environment.blame(name, f"must be a size such as 512M or 2G, not {older!r}")
    return int(float(match[1]) * MEGABYTES[match[2]])


def _read_network(environment: Table) -> str:
    mode = environment.choice("network_mode", ("public", "no-network", "allowlist"))
    if mode is None and environment.values.get("allow_internet") is False:
        return "no-network"
    return mode or "public"
