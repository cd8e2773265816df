"""A task's episodes as one run of a Trinity workflow: siblings are played and judged together."""

from __future__ import annotations

from typing import Any

from trinity.common.experience import Experience
from trinity.common.workflows.workflow import Task as TrinityTask
from trinity.common.workflows.workflow import Workflow

from astuner.contract.schema import Task
from astuner_trinity.explorer.rollout_worker import get_worker
from astuner_trinity.stages import STEPS_BEFORE


class GroupWorkflow(Workflow):
    """Plays all repeats of a task with the runner of this process."""

    is_async = True
    can_repeat = True
    can_reset = True

    def __init__(self, *, task: TrinityTask, model: Any, auxiliary_models: list[Any] | None = None) -> None:
        """Take the task and the engine of this process."""
        # The base class would make a client for each auxiliary model; their addresses are in the environment.
        self.task, self.model, self.auxiliary_model_wrappers = task, model, auxiliary_models
        self.run_id_base = 0
        self.repeat_times = task.repeat_times or 1

    def reset(self, task: TrinityTask) -> None:
        """Play another task next."""
        self.task = task

    def set_repeat_times(self, repeat_times: int, run_id_base: int) -> None:
        """Set how many siblings are played."""
        self.repeat_times, self.run_id_base = repeat_times, run_id_base

    async def run_async(self) -> list[Experience]:
        """Play and judge the group, and return its rows: at least one, as Trinity requires."""
        raw, before = self.task.raw_task, int(self.task.workflow_args.get(STEPS_BEFORE, 0))
        worker = await get_worker(self.task.workflow_args["plan"], self.model, self.auxiliary_model_wrappers or [], before)
        step = raw["step"]
        if step is None:
            # An evaluation's batch is named after the step of the checkpoint: `20/validation`.
            step = before + int(str(self.task.batch_id).partition("/")[0])
        if raw["final"] is not None:
            await worker.wait_for_weights(raw["final"])
        found: list[Experience] = await worker.play(Task(**raw["task"]), step, raw["split"], self.repeat_times)
        for row in found:
            row.eid.run += self.run_id_base
        return found
