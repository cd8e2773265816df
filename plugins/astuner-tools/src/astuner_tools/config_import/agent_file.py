"""The agent of a translated configuration, where the source names none that runs here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from astuner.contract.errors import Problem
from astuner.settings.config.places import ROOT
from astuner.settings.config.trees import Tree, get, put

__all__ = ["AGENT_FILE", "add_agent", "check_agent"]

AGENT = '''\
"""Plays one question and one answer, as the trainer that this project comes from did, and rewards an exact answer."""

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask


class Agent(Workflow):
    """One call of the model for each task; put your own agent here."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        client = tuner.as_raw_openai_sdk_client()
        reply = await client.chat.completions.create(model=tuner.model, messages=workflow_task.task.messages)
        return WorkflowOutput(metadata={"final_answer": reply.choices[0].message.content or ""})


def compute_reward(workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> float:
    """Compare with the column `answer` of the data; put your own reward here, or install a judge."""
    wanted = workflow_task.task.metadata["answer"]
    return float(str(workflow_output.metadata["final_answer"]).strip() == str(wanted).strip())
'''
AGENT_FILE = "agent.py"
NAMES = {"rollout.user_workflow": "Agent", "task_judge.judge_protocol": "compute_reward"}
"""What our keys take from the file."""


def add_agent(roots: Tree) -> str | None:
    """Name an agent and a reward of `agent.py` where the configuration names none; return the text of that file if it does."""
    if get(roots, f"{ROOT}.rollout.user_workflow") is not None:
        return None
    put(roots, f"{ROOT}.rollout.user_workflow", f"./{AGENT_FILE}:Agent")
    if get(roots, f"{ROOT}.task_judge.judge_type") is None:
        put(roots, f"{ROOT}.task_judge.judge_type", "customized_protocol")
        put(roots, f"{ROOT}.task_judge.judge_protocol", f"./{AGENT_FILE}:compute_reward")
    return AGENT


def check_agent(file: Path, roots: Tree) -> Iterator[Problem]:
    """Yield what keeps a file that was there before from being the agent of a configuration; it is read, and not imported."""
    try:
        defined = set(_list_names(ast.parse(file.read_bytes())))
    except (OSError, SyntaxError, ValueError) as error:
        message = f"{file.name}, which was there, cannot be read as Python: {error}."
        yield Problem(key=f"{ROOT}.rollout.user_workflow", message=message)
        return
    for key, name in NAMES.items():
        if get(roots, f"{ROOT}.{key}") == f"./{AGENT_FILE}:{name}" and name not in defined:
            message = f"{file.name}, which was there, has no {name!r}. Add it, or name another one here."
            yield Problem(key=f"{ROOT}.{key}", message=message)


def _list_names(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield node.asname or node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
