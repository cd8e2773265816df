"""Wraps the sampler: a task whose episodes failed in three steps is chosen only if there are no others."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from attrs import evolve

from astuner import hookimpl
from astuner.contract.protocols import PlayedTask, Sampler, TaskDraw

MOST = 3


class GivenUpTasks:
    @hookimpl(wrapper=True)
    def astuner_make_sampler(self) -> Generator[None, Sampler, Sampler]:
        made = yield
        return _OfHopefulTasks(made)


class _OfHopefulTasks:
    def __init__(self, inner: Sampler) -> None:
        self._inner = inner

    def choose(self, draw: TaskDraw, state: Mapping[str, Any]) -> Sequence[str]:
        failures = state.get("failures", {})
        left = [task for task in draw.tasks if failures.get(task, 0) < MOST]
        chosen = evolve(draw, tasks=left if len(left) >= draw.count else draw.tasks)
        return self._inner.choose(chosen, state.get("inner", {}))

    def observe(self, played: Sequence[PlayedTask], state: Mapping[str, Any]) -> Mapping[str, Any]:
        failures = dict(state.get("failures", {}))
        for one in played:
            failures[one.task_id] = failures.get(one.task_id, 0) + (one.success_rate == 0)
        return {"failures": failures, "inner": self._inner.observe(played, state.get("inner", {}))}
