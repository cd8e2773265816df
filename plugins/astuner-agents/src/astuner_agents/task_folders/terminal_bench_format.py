"""The older format of Terminal-Bench: `task.yaml`, `Dockerfile`, `docker-compose.yaml`, `tests/`, `run-tests.sh`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from astuner.contract.errors import DataError
from astuner.contract.plain_values import make_plain
from astuner.settings.config.yaml_bounds import load_plain_yaml
from astuner_agents.task_folders.folder import TaskFolder, find_file, read_services, read_text, require_file
from astuner_agents.task_folders.table import Table

MARK = "task.yaml"
AGENT_TIMEOUT_S, TEST_TIMEOUT_S = 360.0, 60.0
"""Terminal-Bench's own, where a task sets none."""
READ = ("instruction", "max_agent_timeout_sec", "max_test_timeout_sec", "parser_name")


def read_terminal_bench(directory: Path) -> TaskFolder:
    """Read a folder; raises `DataError` with its file and key."""
    file = directory / MARK
    try:
        found = load_plain_yaml(read_text(file))
    except yaml.YAMLError as error:
        raise DataError(f"{file} is not valid YAML: {error}") from error
    if not isinstance(found, Mapping):
        raise DataError(f"{file} holds no keys; a task has `instruction`")
    table = Table(file, found)
    instruction = table.text("instruction")
    if instruction is None:
        raise table.blame("instruction", "is missing: the text that the agent is given")
    compose_file = find_file(directory, "docker-compose.yaml", "docker-compose.yml")
    return TaskFolder(
        format="terminal-bench",
        directory=str(directory),
        instruction=instruction,
        tests=find_file(directory, "tests"),
        test_script=require_file(directory, "run-tests.sh"),
        solution=find_file(directory, "solution.sh", "solution.yaml"),
        dockerfile=find_file(directory, "Dockerfile"),
        compose_file=compose_file,
        agent_timeout_s=table.number("max_agent_timeout_sec", AGENT_TIMEOUT_S),
        verifier_timeout_s=table.number("max_test_timeout_sec", TEST_TIMEOUT_S),
        parser=table.text("parser_name") or "pytest",
        services=read_services(directory, compose_file),
        about=make_plain({name: value for name, value in found.items() if name not in READ}).value,
    )
