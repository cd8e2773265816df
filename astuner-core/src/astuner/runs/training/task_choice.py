"""The tasks of a run's steps, as its sampler chooses them, and what the sampler knows: saved with each checkpoint."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from attrs import define, field

from astuner.contract.errors import ConfigError, PluginError, Problem
from astuner.contract.protocols import Control, PlayedTask, RunInfo, Sampler, TaskDraw, TaskSource
from astuner.contract.schema import Group, Task
from astuner.episodes.rollout.sampler import Uniform
from astuner.runs.store.directory import RunDirectory
from astuner.settings.plugins.extension import explain_errors

if TYPE_CHECKING:
    from astuner.episodes.rollout.recipe import Recipe
    from astuner.settings.plugins.component import Component

STATE = "sampler.json"
"""In a checkpoint: the state of the sampler, by its target, and the last success rate of each task that was played."""


@define(kw_only=True, eq=False)
class TaskChoice:
    """Draws the batches of a run. What is known is JSON from one step to the next, so that a resumed run knows the same."""

    run: RunInfo
    source: TaskSource
    component: Component
    sampler: Sampler
    tasks: Mapping[str, Task] = field(factory=dict)
    """By id; none for tasks that come in their order."""
    known: dict[int, str] = field(factory=dict)
    """By the step after which it was known: the next step may be played before it is saved."""
    drawn: list[str] = field(factory=list)
    """By the step that is being played."""

    @classmethod
    def open(cls, run: RunInfo, source: TaskSource, recipe: Recipe, control: Control) -> TaskChoice:
        """Make the sampler, in the state of the checkpoint of `control.resume_step`."""
        component, stored = recipe.sampler, RunDirectory(run.directory).checkpoint(control.resume_step) / STATE
        sampler = control.hooks.make_sampler(component.candidate, component.options, run)
        found = cls(run=run, source=source, component=component, sampler=sampler)
        if type(sampler) is Uniform:
            return found
        tasks = source.first(sys.maxsize)
        found.tasks = {task.task_id: task for task in tasks}
        if len(found.tasks) < len(tasks):
            message = f"{component.candidate.blame} knows tasks by their ids, and some of the training tasks share one."
            raise ConfigError([Problem(key="astuner.data.sampler", message=message)])
        found.known[control.resume_step] = stored.read_text(encoding="utf-8") if stored.is_file() else "{}"
        return found

    def batch(self, step: int, draw: int = 0) -> Sequence[Task]:
        """Return the tasks of a step, or further ones for it; raises `PluginError` if the sampler's answer cannot be played."""
        if not self.tasks:
            return self.source.batch(step, draw)
        if draw == 0:
            self.drawn = []
        config, (_, state), taken = self.run.config, self._read(step - 1), set(self.drawn)
        left = [task for task in self.tasks if task not in taken]
        count, rng = min(config.data.train_batch_size, len(left)), Random(f"{config.seed}/sampler/{step}/{draw}")
        with explain_errors(f"{self.component.candidate.blame} could not choose tasks"):
            chosen = list(self.sampler.choose(TaskDraw(step=step, count=count, tasks=left, rng=rng), state))
        if len(chosen) != count or len({*chosen}.intersection(left)) != count:
            wanted = f"{count} different ids of draw.tasks are expected"
            raise PluginError(f"{self.component.candidate.blame}: choose(draw, state) returned {chosen!r:.200}; {wanted}")
        self.drawn += chosen
        return [self.tasks[task] for task in chosen]

    def observe(self, step: int, groups: Sequence[Group]) -> None:
        """Take what the groups of a step have shown, in any order."""
        if not self.tasks:
            return
        by_task = {group.task.task_id: group for group in groups}
        played = [_sum_up(by_task[task]) for task in self.drawn]
        rates, state = self._read(step - 1)
        with explain_errors(f"{self.component.candidate.blame} could not take the groups of step {step}"):
            found = {self.component.candidate.target: self.sampler.observe(played, state)}
            found["rates"] = rates | {one.task_id: one.success_rate for one in played}
            self.known = {step - 1: self.known[step - 1], step: json.dumps(found, allow_nan=False)}

    def measure(self, step: int) -> dict[str, float]:
        """Return the metrics of a step."""
        if not self.tasks:
            return {}
        seen = [rate for task, rate in self._read(step)[0].items() if task in self.tasks]
        measured = [rate for rate in seen if rate is not None]
        found = {"sampler/tasks_seen": len(seen) / len(self.tasks)}
        return found | ({"sampler/success_rate": sum(measured) / len(measured)} if measured else {})

    def save(self, checkpoint: Path, step: int) -> None:
        """Write what was known after a step into its checkpoint."""
        if self.tasks:
            (checkpoint / STATE).write_text(self.known[step], encoding="utf-8")

    def _read(self, step: int) -> tuple[dict[str, float | None], Mapping[str, Any]]:
        """Return the success rates of tasks, and the state of the sampler: nothing of another one, which was replaced."""
        known = json.loads(self.known[step])
        return known.get("rates", {}), known.get(self.component.candidate.target, {})


def _sum_up(group: Group) -> PlayedTask:
    return PlayedTask(
        task_id=group.task.task_id,
        step=group.step,
        rewards=tuple(episode.reward for episode in group.episodes if episode.reward is not None),
        successes=tuple(episode.is_success for episode in group.episodes if episode.is_success is not None),
    )
