"""A judge whose rewards depend on task and repeat alone, and samplers, named by the tests as parts of this file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from serving_backbone import Learner, OverlappingBackbone, ServingBackbone

from astuner import Judge, Verdict
from astuner.contract.protocols import PlayedTask, TaskDraw
from astuner.runs.training import loop


class Halves(Judge):
    """Every other sibling succeeds on a task called `half…`, and none on others."""

    async def judge(self, group: Any) -> list[Any]:
        task = group.task.task_id
        successes = [task.startswith("half") and one.repeat % 2 == 0 for one in group.episodes]
        return [Verdict(float(success), success) for success in successes]


class Resumable:
    """Goes on from a checkpoint."""

    def train(self: Any, run: Any, tasks: Any, recipe: Any, control: Any) -> Any:
        learner = Learner(run, recipe, control, self.overlaps, self.off)
        learner.step = control.resume_step
        yield from loop.train(run, tasks, recipe, control, learner)


class Serving(Resumable, ServingBackbone):
    name = "serving"


class Overlapping(Resumable, OverlappingBackbone):
    name = "overlapping"


class Learnable:
    """Random tasks until some are known that succeed at times, and then these; its state lists what was played."""

    def choose(self, draw: TaskDraw, state: Mapping[str, Any]) -> Sequence[str]:
        known = state.get("rates", {})
        order = draw.rng.sample(draw.tasks, len(draw.tasks))
        return sorted(order, key=lambda task: -known.get(task, 0.4))[: draw.count]

    def observe(self, played: Sequence[PlayedTask], state: Mapping[str, Any]) -> Mapping[str, Any]:
        rates = {one.task_id: one.success_rate for one in played if one.success_rate is not None}
        seen = [*state.get("seen", []), [one.task_id for one in played]]
        return {"rates": {**state.get("rates", {}), **rates}, "seen": seen}


class Twice(Learnable):
    def choose(self, draw: TaskDraw, state: Mapping[str, Any]) -> Sequence[str]:
        return [draw.tasks[0]] * draw.count


class Raising(Learnable):
    def choose(self, draw: TaskDraw, state: Mapping[str, Any]) -> Sequence[str]:
        raise KeyError("lost")


class OfSets(Learnable):
    def observe(self, played: Sequence[PlayedTask], state: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"seen": {one.task_id for one in played}}


class Unfinished:
    def observe(self, played: Sequence[PlayedTask], state: Mapping[str, Any]) -> Mapping[str, Any]:
        return state
