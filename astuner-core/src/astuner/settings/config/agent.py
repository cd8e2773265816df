"""The sections `agent` and `sandbox`: the program of the workflow `astuner_agents:Command`, and where it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from attrs import field, frozen
from attrs.validators import ge

from astuner.settings.config.components import OpenSection, check_positive

COMMAND = "astuner_agents:Command"
"""The workflow that plays the section `agent`."""


def is_command(workflow: str | None) -> bool:
    """Whether `rollout.user_workflow` names that workflow."""
    return workflow is not None and workflow.replace("->", ":").replace(" ", "") == COMMAND


@frozen(kw_only=True)
class Sandbox(OpenSection):
    """Where the programs of agents run, for workflows that run one."""

    type: str = "local"
    """The sandbox; `astuner plugin list --kind sandbox` shows those installed. `local` bounds a program and protects nothing from
    it."""


@frozen(kw_only=True)
class Agent:
    """A program that is the agent, for `rollout.user_workflow: astuner_agents:Command`.

    These are replaced in `command`, `env` and `files`: `{query}` by the task, `{prompt_file}` by the path of a file with it,
    `{base_url}`, `{anthropic_base_url}`, `{api_key}` and `{model}` by how the model is reached, `{workdir}` and `{home}` by
    directories, and `{task.NAME}` by what the task's metadata holds under NAME.
    """

    preset: str | None = None
    """The settings of a known program, `claude_code`, `codex`, `qwen_code`, `opencode`, `gemini_cli` or `pi`; the other keys win
    over them."""
    command: str | tuple[str, ...] = ()
    """The program: a list of words, or a text for the shell (`/bin/sh`), in which each value is quoted where it is put in."""
    prompt: Literal["argument", "stdin", "file"] | None = None
    """How the program gets the task: in place of `{query}`, or as its last argument; on its standard input; or in the file
    `prompt_file`. By default as the preset says, or as an argument."""
    prompt_file: str = "TASK.md"
    """The file for `prompt: file`, in the working directory."""
    env: Mapping[str, str] = field(factory=dict)
    """Environment variables. `OPENAI_BASE_URL`, `OPENAI_API_KEY`, `OPENAI_MODEL`, `ANTHROPIC_BASE_URL` and `ANTHROPIC_API_KEY`
    are set to reach the model."""
    files: Mapping[str, str] = field(factory=dict)
    """Files of the sandbox with their texts, by paths in the working directory; `~/…` is in the home directory."""
    copy: Mapping[str, str] = field(factory=dict)
    """Files and directories that are copied into the sandbox, as they are: path there → path here, relative to the YAML."""
    collect: tuple[str, ...] = ()
    """Patterns of files of the working directory (`*.py`, `out/**/*.txt`) whose texts the judge finds in the output's metadata
    under `files`, by path."""
    trainable_targets: tuple[str, ...] | None = None
    """The targets whose calls are trained; by default all. A program names another target than `agent`, which is its own, by
    the model `{model}@TAG` (docs/recording.md): with `[agent]` the calls that it makes with such a model are not trained."""
    max_collect_bytes: int = field(default=1024 * 1024, validator=ge(0))
    """Most bytes of these files in all; what does not fit is left out, in the order of the paths."""
    timeout_s: float | None = field(default=600.0, validator=check_positive)
    """Longest that the program may run; an episode that takes longer fails with the reason `timeout`."""
    max_output_bytes: int = field(default=8 * 1024 * 1024, validator=ge(1))
    """Most bytes of stdout, and of stderr; an episode whose program writes more fails."""
    max_answer_chars: int = field(default=20_000, validator=ge(1))
    """Most characters of the end of stdout, which are the episode's final answer."""
    nonzero_exit: Literal["record", "fail"] = "record"
    """What an exit code other than 0 means: `record` it for the judge, or `fail` the episode."""
