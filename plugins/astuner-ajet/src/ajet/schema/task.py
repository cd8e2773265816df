"""Tasks, and what a workflow returns for one: models of pydantic, which users' code reads and changes."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


class Task(BaseModel):
    """One task as a reader yields it."""

    main_query: str = ""
    init_messages: list[dict[str, Any]] = Field(default_factory=list)
    """The first messages: those of the environment, or the query as a message of the user."""
    task_id: str = ""
    env_type: str = ""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """All other fields of the row."""


class WorkflowTask(BaseModel):
    """The input of one episode."""

    env_type: str = ""
    task_id: str = ""
    task_thread_index: int = 0
    """Always 0: each episode has an observation window of its own."""
    task_batch_index: int = 0
    """The position of the episode among those of its task, from 0."""
    task_tag: str = ""
    episode_uuid: str = ""
    observation_window: dict[str, Any] = Field(default_factory=lambda: {"info": [""], "step": [0], "stop": [False], "token": [0]})
    """Yours to write to; nothing is read from it."""
    llm_inference_fn: Any = None
    """Always None: calls go through the tuner."""
    tokenizer: Any = None
    """The tokenizer of the trained model, loaded when it is first used."""
    task: Task = Field(default_factory=Task)
    gym_env: Any = None
    """The episode's environment, whose `step(action=…)` blocks; None without one."""


class WorkflowOutput(BaseModel):
    """The result of an episode. A reward given here takes precedence over the judge."""

    reward: float | list[float] | None = None
    """Of the episode. A list, one reward for each step, is refused."""
    is_success: bool | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    """For the judge, for example `final_answer`."""
    log_metrics: dict[str, float | list[float] | dict[str, Any]] = Field(default_factory=dict)
    """Numbers to log. A list is logged as its mean, and a mapping as one metric for each of its names: `tools/calls`."""
