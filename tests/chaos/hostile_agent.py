"""An agent that does, in the first siblings of a group, what agents have been seen to do; copied into a project.

`HOSTILE` in the environment names the deeds, with commas between them: one for each sibling.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import enum
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from agent import CalculatorAgent

from astuner import Tuner, WorkflowOutput, WorkflowTask

Deed = Callable[[], Any]
HOSTILE = os.environ["HOSTILE"].split(",")
DEEDS: dict[str, Deed] = {}
"""What happens instead of an answer; a result that is awaitable is awaited, an output is returned."""


class Colour(enum.Enum):
    """An enum, as agents keep in their metadata."""

    RED = "red"


def deed(function: Deed) -> Deed:
    """Register a function under its name."""
    DEEDS[function.__name__] = function
    return function


def answer(**changes: Any) -> WorkflowOutput:
    """Return an output with more in it."""
    metadata = {"final_answer": "1", **changes.pop("metadata", {})}
    return WorkflowOutput(metadata=metadata, **changes)


# Raising.


@deed
def raises_value_error() -> None:
    raise ValueError("odd")


@deed
def raises_base_exception() -> None:
    raise BaseException("odd")


@deed
def leaks_a_cancellation() -> None:
    raise asyncio.CancelledError


@deed
def exits() -> None:
    sys.exit(3)


@deed
def exits_as_argparse_does() -> None:
    import argparse

    argparse.ArgumentParser(prog="tool").parse_args(["--no-such-option"])


@deed
def raises_generator_exit() -> None:
    raise GeneratorExit


@deed
def raises_keyboard_interrupt() -> None:
    raise KeyboardInterrupt


@deed
def raises_stop_iteration() -> None:
    raise StopIteration


@deed
def recurses() -> None:
    recurses()


@deed
def cancels_itself() -> Any:
    async def cancel() -> None:
        task = asyncio.current_task()
        assert task
        task.cancel()
        await asyncio.sleep(0)

    return cancel()


# Returning.


@deed
def returns_nothing() -> None:
    return None


@deed
def returns_a_mapping() -> Any:
    return {"final_answer": "1"}


@deed
def returns_half_an_emoji() -> WorkflowOutput:
    return answer(metadata={"text": json.loads('"smile \\ud83d"'), "\udc80": 1})


@deed
def returns_numpy() -> WorkflowOutput:
    reward = np.mean([1.0, 0.0])
    return answer(reward=reward, is_success=reward > 0.7, log_metrics={"calls": np.int64(3)}, metadata={"array": np.arange(3)})


@deed
def returns_objects() -> WorkflowOutput:
    return answer(
        metadata={
            "date": datetime.date(2026, 1, 1),
            "enum": Colour.RED,
            "path": pathlib.Path("/x"),
            "object": object(),
            "bytes": b"\xff",
            "nan": float("nan"),
            1: 2,
            "set": {1},
        }
    )


@deed
def returns_itself() -> WorkflowOutput:
    metadata: dict[str, Any] = {"final_answer": "1"}
    metadata["me"] = metadata
    return WorkflowOutput(metadata=metadata)


@deed
def returns_a_deep_list() -> WorkflowOutput:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    return answer(metadata={"deep": deep})


@deed
def returns_metrics_that_are_none() -> WorkflowOutput:
    return answer(log_metrics={"tool": "none", "nothing": None, "list": [1], "inf": float("inf"), "right": 1})


@deed
def returns_a_huge_reward() -> WorkflowOutput:
    return answer(reward=1e308)


@deed
def returns_a_reward_that_is_not_a_number() -> WorkflowOutput:
    return answer(reward=float("nan"))


@deed
def returns_twenty_megabytes() -> WorkflowOutput:
    return answer(metadata={"blob": "y" * (20 << 20)})


# Staying.


@deed
def sleeps_for_ever() -> Any:
    return asyncio.sleep(100_000)


@deed
def swallows_cancellation() -> Any:
    async def swallow() -> None:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)

    return swallow()


@deed
def leaves_threads() -> WorkflowOutput:
    for _ in range(3):
        threading.Thread(target=time.sleep, args=(600,)).start()
    return answer()


@deed
def leaves_a_child() -> WorkflowOutput:
    subprocess.Popen(["sleep", "597"])
    return answer()


@deed
def leaves_a_daemon() -> WorkflowOutput:
    subprocess.run(["setsid", "--fork", "sleep", "598"], check=True)
    return answer()


@deed
def leaves_a_task() -> WorkflowOutput:
    async def stay() -> None:
        await asyncio.sleep(600)

    asyncio.get_running_loop().create_task(stay(), name="left behind")
    return answer()


# Breaking what is shared.


@deed
def ends_the_process() -> None:
    os._exit(0)


@deed
def closes_stdout() -> WorkflowOutput:
    with contextlib.suppress(OSError):  # the second does it again
        os.close(1)
    return answer()


@deed
def closes_stderr() -> WorkflowOutput:
    with contextlib.suppress(OSError):
        os.close(2)
    return answer()


@deed
def changes_directory() -> WorkflowOutput:
    os.chdir("/")
    return answer()


@deed
def clears_the_environment() -> WorkflowOutput:
    os.environ.clear()
    return answer()


@deed
def ignores_signals() -> WorkflowOutput:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return answer()


@deed
def turns_gradients_off() -> WorkflowOutput:
    import torch

    torch.set_grad_enabled(False)
    return answer()


@deed
def seeds_everything() -> WorkflowOutput:
    import random

    random.seed(1)
    np.random.seed(1)
    return answer()


@deed
def prints_a_lot() -> WorkflowOutput:
    for _ in range(64):
        sys.stdout.write("x" * (1 << 20) + "\n")
    return answer()


class HostileAgent(CalculatorAgent):
    """The quickstart's agent, whose first siblings are hostile."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Answer the question, unless this sibling is hostile."""
        output = await super().execute(workflow_task, tuner)
        if workflow_task.repeat >= len(HOSTILE):
            return output
        found = DEEDS[HOSTILE[workflow_task.repeat]]()
        return await found if hasattr(found, "__await__") else found
