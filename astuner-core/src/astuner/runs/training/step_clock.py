"""How long a step took, also where the next one is played while this one is trained."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attrs import define, field


@define(eq=False)
class StepClock:
    """Gives each step its own rollout and update, whenever they were; the times of all steps add up to the wall clock's."""

    now: Callable[[], float] = time.perf_counter
    _played_s: dict[int, float] = field(factory=dict, init=False)
    """The rollouts of steps that are not reported yet."""
    _rollout_ended: float = field(default=0.0, init=False)
    _update_began: float = field(default=0.0, init=False)
    _update_ended: float = field(default=0.0, init=False)

    @contextmanager
    def rollout(self, step: int) -> Iterator[None]:
        """Time the rollout of a step."""
        began = self.now()
        yield
        self._rollout_ended = self.now()
        self._played_s[step] = self._rollout_ended - began

    def begin_update(self) -> None:
        """Mark that the rollout of a step is there and its update begins."""
        self._update_began = self.now()

    def end_update(self) -> None:
        """Mark that the weights are updated; another thread may be playing the next step."""
        self._update_ended = self.now()

    def take(self, step: int) -> dict[str, float]:
        """Return `time/rollout_s`, `time/update_s` and `time/step_s` of a step whose weights are in use now.

        A rollout that the update has overlapped is the time of its own step, and so is waiting for its end.
        """
        rollout_s = self._played_s.pop(step)
        overlapped_s = sum(self._played_s.values())
        since_update_s = self.now() - self._update_began
        waited_s = max(0.0, self._rollout_ended - self._update_ended)
        return {
            "time/rollout_s": rollout_s,
            "time/update_s": since_update_s - waited_s,
            "time/step_s": rollout_s + since_update_s - overlapped_s,
        }
