"""A backbone and an agent that take eight seconds over one thing, which SLOW names, and then write its name into `slow`."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

from serving_backbone import Learner, ServingBackbone

from astuner import Workflow, WorkflowOutput
from astuner.runs.training import loop

SLOW_S = 8.0
"""More than any limit that a stop of a run has for its main thread."""


def begin(what: str, step: int = 2) -> float:
    """Return how long it takes: only the first time."""
    if os.environ.get("SLOW") != what or step != 2 or Path("slow").exists():
        return 0.0
    Path("slow").write_text(what)
    return SLOW_S


class Agent(Workflow):
    """Asks once; slow in the validation of step 2."""

    async def execute(self, workflow_task: Any, tuner: Any) -> WorkflowOutput:
        """Answer one task."""
        messages = [{"role": "user", "content": workflow_task.task.main_query}]
        await tuner.as_raw_openai_sdk_client().chat.completions.create(model="tuned", messages=messages)
        if workflow_task.episode_id.startswith("validation/2/"):
            await asyncio.sleep(begin("validation"))
        return WorkflowOutput(reward=float(workflow_task.repeat))


class SlowLearner(Learner):
    """Blocks the thread that it is called in, as a learner of a large model does."""

    def __init__(self, run: Any, recipe: Any, control: Any) -> None:
        time.sleep(begin("start"))
        super().__init__(run, recipe, control, False, 0.0)
        self.step = control.resume_step

    def update(self, rows: Any, step: int) -> dict[str, float]:
        """Update."""
        super().update(rows, step)
        time.sleep(begin("update", step))
        return {}

    def save(self, directory: Path) -> None:
        """Save."""
        super().save(directory)
        time.sleep(begin("save", self.step))

    async def _serve(self, ref: str, version: int) -> None:
        time.sleep(begin("new weights", version))


class SlowBackbone(ServingBackbone):
    """The loop that all backbones share."""

    def train(self, run: Any, tasks: Any, recipe: Any, control: Any) -> Any:
        """Train."""
        yield from loop.train(run, tasks, recipe, control, SlowLearner(run, recipe, control))
