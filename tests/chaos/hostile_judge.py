"""A judge that does to every fourth answer what judges have been seen to do; copied into a project.

`HOSTILE` in the environment names the deed.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from judge import ExactAnswer

from astuner import Verdict, WorkflowOutput, WorkflowTask


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
}


class HostileJudge(ExactAnswer):
    """The quickstart's judge, hostile to the first sibling."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> Any:
        """Return the reward."""
        if workflow_task.repeat != 0:
            return super().compute_reward(workflow_task, workflow_output)
        return DEEDS[os.environ["HOSTILE"]]()
