"""The quickstart's agent, a tenth of whose episodes meet a fault of one kind or another; copied into the project."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import threading
import time

import numpy as np
from agent import CalculatorAgent

from astuner import ServiceUnavailable, Tuner, WorkflowOutput, WorkflowTask

SHARE = 0.1


async def swallow_cancellation() -> None:
    """Stay, whatever happens, but not for the whole night."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(1)


class SoakAgent(CalculatorAgent):
    """Answers most questions."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Answer one question, or fail at it."""
        rng = random.Random(f"{workflow_task.episode_id}/{workflow_task.attempt}")
        output = await super().execute(workflow_task, tuner)
        if rng.random() > SHARE:
            return output
        match rng.randrange(12):
            case 0:
                raise ValueError("odd")
            case 1:
                raise asyncio.CancelledError
            case 2:
                sys.exit(3)
            case 3:
                await asyncio.sleep(3600)
            case 4:
                await swallow_cancellation()
            case 5:
                return WorkflowOutput(metadata={"final_answer": "half \ud83d"})
            case 6:
                return WorkflowOutput(reward=float("nan"))
            case 7:
                return WorkflowOutput(reward=np.float32(0.5), is_success=np.bool_(True), metadata={"final_answer": "1"})
            case 8:
                threading.Thread(target=time.sleep, args=(5,)).start()
            case 9:
                await tuner.as_raw_openai_sdk_client().chat.completions.create(
                    model="tuned", messages=[{"role": "user", "content": "x " * 200_000}]
                )
            case 10:
                raise ServiceUnavailable("the search service is down")
            case _:
                raise ConnectionError("refused")
        return output
