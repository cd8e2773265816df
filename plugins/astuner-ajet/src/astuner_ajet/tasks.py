"""Tasks and outputs from one form into the other."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

import ajet
import astuner
from ajet.schema.task import Task


def to_ajet_task(workflow_task: astuner.WorkflowTask, *, tokenizer: Any, gym_env: Any = None) -> ajet.WorkflowTask:
    """Return the task of an episode as AgentJet's code reads it; what it changes in it is its own."""
    task = workflow_task.task
    messages = [copy.deepcopy(dict(message)) for message in task.messages]
    return ajet.WorkflowTask(
        env_type=task.env_type,
        task_id=task.task_id,
        task_batch_index=workflow_task.repeat,
        task_tag=workflow_task.split,
        episode_uuid=workflow_task.episode_id,
        tokenizer=tokenizer,
        gym_env=gym_env,
        task=Task(
            main_query=task.main_query,
            init_messages=messages,
            task_id=task.task_id,
            env_type=task.env_type,
            metadata=copy.deepcopy(dict(task.metadata)),
        ),
    )


def to_astuner_task(task: Task) -> astuner.Task:
    """Return a task that AgentJet's code has read."""
    return astuner.Task(task.main_query, tuple(task.init_messages), task.task_id, task.env_type or "no_env", task.metadata)


def to_ajet_output(output: astuner.WorkflowOutput) -> ajet.WorkflowOutput:
    """Return a stored output, for a judge."""
    return ajet.WorkflowOutput.model_construct(
        reward=None, is_success=output.is_success, metadata=dict(output.metadata), log_metrics=dict(output.log_metrics)
    )


def to_astuner_output(output: Any) -> Any:
    """Return what a workflow of AgentJet returned; anything but an output as it is, for core to refuse.

    Raises ValueError for one reward per step.
    """
    if not isinstance(output, ajet.WorkflowOutput):
        return output
    if isinstance(output.reward, list):
        raise ValueError(
            "WorkflowOutput.reward is a list, one for each step; give one reward for the episode: their sum, or the last"
        )
    return astuner.WorkflowOutput(
        reward=output.reward,
        is_success=output.is_success,
        metadata=output.metadata,
        log_metrics=dict(_flatten(output.log_metrics)),
    )


def _flatten(metrics: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield numbers by their dotted names: the mean of a list, each value of a mapping. An empty list or mapping has none."""
    for name, value in metrics.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{above}{name}/")
        elif isinstance(value, Sequence) and not isinstance(value, str):
            if value:
                yield f"{above}{name}", fmean(value)
        else:
            yield f"{above}{name}", value
