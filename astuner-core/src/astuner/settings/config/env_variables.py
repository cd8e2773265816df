"""The section `environment`: which environment the episodes are played in, and how actions are read off answers."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from astuner.settings.config.components import OpenSection

ActionPreference = Literal["code", "text", "box"]

BY_TASK = "auto"
"""The `environment_type` that means: the environment that each task's `env_type` names."""

NO_ENVIRONMENT = "no_env"
"""The `environment_type`, and the `env_type` of a task, that mean: none."""


@frozen(kw_only=True)
class Environment(OpenSection):
    """Which environment the episodes are played in."""

    environment_type: str = BY_TASK
    """The environment of every task; `auto` takes the one that each task's `env_type` names, `no_env` none."""
    leads: bool = False
    """Let the environment lead, without a workflow: core asks the model and gives its answers to the environment. The same as
    `rollout.use_agentscope_protocol: false`."""
    env_action_preference: ActionPreference | None = None
    """What an environment that leads is given of an answer: `text` is all of it, `code` its last fenced code block, `box` its
    last `\\boxed{…}` or `<action>…</action>`. Reasoning is never part of it. By default what the task reader prefers, or
    `text`."""
