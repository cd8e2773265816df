"""A backbone and an agent that replace a file of the project, which REPLACED names, by the one behind it while a run begins."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from serving_backbone import Learner, ServingBackbone

from astuner import Workflow, WorkflowOutput
from astuner.runs.training import loop

WHEN, _, FILE = os.environ.get("REPLACED", "").partition(" ")
HERE = Path(__file__).parent


def replace(when: str) -> None:
    """Replace the file, once."""
    if when == WHEN and (HERE / f"{FILE}.new").exists():
        os.replace(HERE / f"{FILE}.new", HERE / FILE)


replace("import")


class Agent(Workflow):
    """Asks once."""

    async def execute(self, workflow_task: Any, tuner: Any) -> WorkflowOutput:
        """Answer one task."""
        replace("validation")
        messages = [{"role": "user", "content": workflow_task.task.main_query}]
        await tuner.as_raw_openai_sdk_client().chat.completions.create(model="tuned", messages=messages)
        return WorkflowOutput(reward=float(workflow_task.repeat))


class ResumingLearner(Learner):
    """Continues."""

    def __init__(self, run: Any, recipe: Any, control: Any) -> None:
        replace("load")
        super().__init__(run, recipe, control, False, 0.0)
        self.step = control.resume_step

    def update(self, rows: Any, step: int) -> dict[str, float]:
        """Update."""
        super().update(rows, step)
        return {}


class Backbone(ServingBackbone):
    """The loop that all backbones share."""

    def train(self, run: Any, tasks: Any, recipe: Any, control: Any) -> Any:
        """Train."""
        yield from loop.train(run, tasks, recipe, control, ResumingLearner(run, recipe, control))
