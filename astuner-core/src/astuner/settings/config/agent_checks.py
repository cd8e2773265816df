"""Checks of the section `agent`."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from attrs import frozen

from astuner.settings.config.agent import COMMAND, is_command
from astuner.settings.config.model import Config
from astuner.settings.config.paths import resolve_path
from astuner.settings.config.similar_paths import find_similar_path
from astuner.settings.config.structure_errors import find_closest


@frozen
class AgentProblem:
    """A key below the root, and what is wrong with it."""

    key: str
    message: str
    suggestion: str | None = None


def find_agent_problems(config: Config, config_dir: Path) -> Iterator[AgentProblem]:
    """Yield what keeps the agent's program from being started; nothing if the run plays another workflow."""
    agent = config.agent
    if not is_command(config.rollout.user_workflow):
        return
    from astuner.settings.config.agent_presets import read_presets

    presets = ", ".join(read_presets())
    if agent.preset is not None and agent.preset not in read_presets():
        closest = find_closest(agent.preset, read_presets())
        yield AgentProblem("agent.preset", f"there is no preset {agent.preset!r}; there are: {presets}.", closest)
    elif not agent.command and agent.preset is None:
        message = f"the workflow {COMMAND} runs a program, and none is given. Set agent.command, or agent.preset: {presets}."
        yield AgentProblem("agent.command", message)
    elif not isinstance(agent.command, str) and "" in agent.command[:1]:
        yield AgentProblem("agent.command", "its first word, the program, is empty.")
    for name in (*agent.files, *agent.copy):
        key = "agent.files" if name in agent.files else "agent.copy"
        inside = name.removeprefix("~/")
        if not inside or inside.startswith("/") or ".." in Path(inside).parts:
            yield AgentProblem(f"{key}.{name}", "it must be a path in the sandbox: relative, without '..', or `~/…`.")
    for name, path in agent.copy.items():
        if not os.path.exists(resolve_path(path, config_dir)):
            message = f"there is no file or directory {resolve_path(path, config_dir)}."
            yield AgentProblem(f"agent.copy.{name}", message, find_similar_path(path, config_dir))
    if os.path.isabs(agent.prompt_file) or ".." in Path(agent.prompt_file).parts or not agent.prompt_file:
        yield AgentProblem("agent.prompt_file", "it must be a path in the working directory: relative, without '..'.")
    if config.rollout.isolation == "process":
        message = f"{COMMAND} runs its program in a process of its own already, and cannot be played in another one. Use async."
        yield AgentProblem("rollout.isolation", message)


def find_agent_notice(config: Config, user_keys: Collection[str]) -> str | None:
    """Return a notice if the section is set and not used."""
    if is_command(config.rollout.user_workflow) or not any(key == "agent" or key.startswith("agent.") for key in user_keys):
        return None
    return f"agent: without effect, since rollout.user_workflow is not {COMMAND}."
