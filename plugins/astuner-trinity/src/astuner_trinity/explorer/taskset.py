"""The tasks of the run as a Trinity taskset: core's reader and order, as for every backbone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve
from trinity.buffer.buffer_reader import BufferReader
from trinity.common.config import StorageConfig
from trinity.common.workflows.workflow import Task as TrinityTask

from astuner.contract.schema import Split, Task
from astuner.runs.store.codec import dump_plain
from astuner.settings.planning.replan import replan
from astuner_trinity.explorer.workflow import GroupWorkflow
from astuner_trinity.layout import Layout
from astuner_trinity.schedule import Schedule
from astuner_trinity.stages import STEPS_BEFORE


class Taskset(BufferReader):
    """`storage_type` of both tasksets; `path` names the run's plan."""

    def __init__(self, config: StorageConfig) -> None:
        """Read the tasks."""
        from astuner.settings.plugins.hooks import Hooks

        again = replan(Layout.of_plan(config.path).plan)
        plan, info = again.plan, again.run_info
        hooks = Hooks(plan.catalog, on_listener_error=lambda text: None, options=info.config.plugins.options)
        self._config, self._layout = config, Layout(info.directory)
        self._tasks = plan.sample_tasks(hooks.make_reader(plan.reader.candidate, plan.reader.options, info))
        schedule = Schedule(**again.facts["schedule"])
        # A stage may have its own length.
        schedule = evolve(schedule, total=config.total_steps or schedule.total)
        catching_up = schedule.until_the_last_weights(again.facts["synchronizer"], again.facts["in_flight"])
        self._schedule = evolve(schedule, catching_up=catching_up)
        self._last_weights = schedule.last_weights(again.facts["synchronizer"])
        self._repeats = {"train": info.config.rollout.num_repeat, "validation": info.config.trainer_common.val_pass_n}
        self._before = int(config.workflow_args.get(STEPS_BEFORE, 0))
        self._step = int(config.index)
        """The last explorer step whose tasks were read."""

    async def read(self, batch_size: int | None = None, **_: Any) -> list[TrinityTask]:
        """Return the tasks of the next explorer step, whatever the batch size; for evaluation, all tasks at once."""
        self._step += 1
        if self._config.is_eval:
            if self._step > 1:
                raise StopAsyncIteration
            return self._build_tasks(self._tasks.validation(), None, "validation")
        schedule = self._schedule
        if self._layout.trained.exists():
            # With a replay buffer the trainer may finish before the explorer.
            self._step = max(self._step, schedule.total + 1)
        if self._layout.stop.exists() or self._step > schedule.last:
            raise StopAsyncIteration
        weights = schedule.weights_at(self._step)
        found: list[TrinityTask] = []
        if schedule.trains(self._step):
            found += self._build_tasks(self._tasks.batch(self._step), self._step, "train")
        if weights is not None and schedule.validates(weights):
            final = self._last_weights if weights == schedule.total else None
            found += self._build_tasks(self._tasks.validation(), weights, "validation", final=final)
        return found

    def __len__(self) -> int:
        """Return the number of explorer steps."""
        return 1 if self._config.is_eval else self._schedule.last

    def state_dict(self) -> dict[str, int]:
        """Return the position, in explorer steps."""
        return {"current_index": self._step}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Continue after an explorer step."""
        self._step = state_dict["current_index"]

    def _build_tasks(
        self, tasks: Sequence[Task], step: int | None, split: Split, *, final: int | None = None
    ) -> list[TrinityTask]:
        """Return Trinity tasks, with the step of the run; those of the last validation wait for the weights `final`.

        Steps are counted within the stage, except in the tasks.
        """
        of_run = {"step": step, "final": final}
        of_run = {name: None if value is None else self._before + value for name, value in of_run.items()}
        return [
            TrinityTask(
                workflow=GroupWorkflow,
                repeat_times=self._repeats[split],
                rollout_args=self._config.rollout_args,
                workflow_args={**self._config.workflow_args, "plan": str(self._layout.plan)},
                is_eval=split == "validation",
                raw_task={"task": dump_plain(task), "split": split, **of_run},
            )
            for task in tasks
        ]
