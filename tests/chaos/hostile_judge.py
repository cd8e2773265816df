"""Judges that do what judges have been seen to do, to the first siblings or to the first group; copied into a project.

`HOSTILE` in the environment names the deeds, with commas between them: one for each sibling.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from judge import ExactAnswer

from astuner import Judge, Verdict, WorkflowOutput, WorkflowTask
from astuner.contract.schema import Group


def _raise(error: BaseException) -> Any:
    raise error


DEEDS: dict[str, Callable[[], Any]] = {
    "raises": lambda: _raise(RuntimeError("the judge broke")),
    "exits": lambda: sys.exit(7),
    "leaks_a_cancellation": lambda: _raise(asyncio.CancelledError()),
    "raises_base_exception": lambda: _raise(BaseException("odd")),
    "not_a_number": lambda: (float("nan"), True),
    "infinite": lambda: (float("inf"), True),
    "huge": lambda: (1e308, True),
    "text": lambda: ("1.0", True),
    "nothing": lambda: None,
    "three": lambda: (1.0, True, {}),
    "numpy": lambda: Verdict(np.float32(1), np.bool_(True), components={"f1": np.float32(0.3)}),
    "half_an_emoji": lambda: Verdict(1.0, True, rationale="smile \ud83d"),
    "hangs": lambda: time.sleep(3600),
    "crashes": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "nothing_odd": lambda: (1.0, True),
}


class HostileJudge(ExactAnswer):
    """The quickstart's judge, hostile to the first siblings."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> Any:
        """Return the reward."""
        deeds = os.environ["HOSTILE"].split(",")
        if workflow_task.repeat >= len(deeds):
            return super().compute_reward(workflow_task, workflow_output)
        return DEEDS[deeds[workflow_task.repeat]]()


class HostileComparison(Judge):
    """A judge that compares siblings, and waits for ever for its first group."""

    def __init__(self) -> None:
        """Wait for the first group."""
        self._groups = 0

    async def judge(self, group: Group) -> Sequence[Verdict]:
        """Prefer the last sibling."""
        self._groups += 1
        if self._groups == 1:
            await asyncio.sleep(3600)
        completed = [episode for episode in group.episodes if episode.completed]
        return [Verdict(place / len(completed)) for place, _ in enumerate(completed)]
