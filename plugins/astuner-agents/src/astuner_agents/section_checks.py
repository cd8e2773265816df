"""Checks of the section `agent`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from astuner.contract.errors import Problem
from astuner.settings.config.model import Config
from astuner.settings.config.paths import find_similar_path, resolve_path
from astuner.settings.config.structure_errors import find_closest
from astuner_agents.presets import read_presets


def find_agent_problems(config: Config, config_dir: Path) -> Iterator[Problem]:
    """Yield what keeps the agent's program from being started."""
    agent = config.agent
    presets = ", ".join(read_presets())
    if agent.preset is not None and agent.preset not in read_presets():
        closest = find_closest(agent.preset, read_presets())
        yield _make_problem("preset", f"there is no preset {agent.preset!r}; there are: {presets}.", closest)
    elif not agent.command and agent.preset is None:
        message = "the workflow astuner_agents:Command runs a program, and none is given. Set agent.command, or agent.preset: "
        yield _make_problem("command", f"{message}{presets}.")
    elif not isinstance(agent.command, str) and "" in agent.command[:1]:
        yield _make_problem("command", "its first word, the program, is empty.")
    for name in (*agent.files, *agent.copy):
        key = "files" if name in agent.files else "copy"
        inside = name.removeprefix("~/")
        if not inside or inside.startswith("/") or ".." in Path(inside).parts:
            yield _make_problem(f"{key}.{name}", "it must be a path in the sandbox: relative, without '..', or `~/…`.")
    for name, path in agent.copy.items():
        if not os.path.exists(resolve_path(path, config_dir)):
            message = f"there is no file or directory {resolve_path(path, config_dir)}."
            yield _make_problem(f"copy.{name}", message, find_similar_path(path, config_dir))
    if os.path.isabs(agent.prompt_file) or ".." in Path(agent.prompt_file).parts or not agent.prompt_file:
        yield _make_problem("prompt_file", "it must be a path in the working directory: relative, without '..'.")


def _make_problem(key: str, message: str, suggestion: str | None = None) -> Problem:
    return Problem(key=f"astuner.agent.{key}", message=message, suggestion=suggestion)
