"""An agent and a judge that do their work well and leave what the whole process shares changed; copied into a project.

`CARELESS_AGENT` and `CARELESS_JUDGE` in the environment name what each does.
"""

from __future__ import annotations

import contextlib
import io
import locale
import logging
import os
import random
import signal
import sys
import warnings
from collections.abc import Callable
from decimal import getcontext
from typing import Any

import numpy as np
import torch
from agent import CalculatorAgent
from judge import ExactAnswer

from astuner import Tuner, WorkflowOutput, WorkflowTask

AGENT, JUDGE = (os.environ.get(f"CARELESS_{who}", "do_nothing") for who in ("AGENT", "JUDGE"))
OPEN = contextlib.ExitStack()
"""Contexts that are entered and never left."""


def do_nothing() -> None:
    """Leave everything as it was."""


def seed_everything() -> None:
    """Seed every generator of random numbers that there is."""
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)


def change_arithmetic() -> None:
    """Change how torch and numpy compute."""
    torch.set_default_dtype(torch.float64)
    torch.set_float32_matmul_precision("medium")
    torch.use_deterministic_algorithms(mode=False)
    torch.set_flush_denormal(True)
    torch.backends.cuda.enable_flash_sdp(enabled=False)
    np.seterr(all="raise")
    getcontext().prec = 2


def change_threads() -> None:
    """Compute with another number of threads."""
    torch.set_num_threads(torch.get_num_threads() % 2 + 1)


def turn_gradients_off() -> None:
    """Turn gradients off for the thread."""
    torch.set_grad_enabled(False)


def change_device() -> None:
    """Make tensors without values by default."""
    torch.set_default_device("meta")


def open_contexts() -> None:
    """Enter contexts as a generator that is never closed does."""
    OPEN.enter_context(torch.autocast("cpu", dtype=torch.bfloat16))
    OPEN.enter_context(torch.inference_mode())


def change_process() -> None:
    """Change what Python keeps for the whole process."""
    os.chdir("/")
    os.umask(0)
    os.environ.update(HOME="/nonexistent", TZ="Pacific/Kiritimati", TMPDIR="/nonexistent", OMP_NUM_THREADS="7")
    locale.setlocale(locale.LC_ALL, "C")
    warnings.simplefilter("error")
    logging.disable(logging.CRITICAL)
    sys.setrecursionlimit(150)


def replace_streams() -> None:
    """Put other streams in the place of the process's, and close them."""
    sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
    sys.stdout.close()
    sys.stderr.close()


def take_signals() -> None:
    """Handle the signals of the run."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


DEEDS: dict[str, Callable[[], Any]] = {
    deed.__name__: deed
    for deed in (
        do_nothing,
        seed_everything,
        change_arithmetic,
        change_threads,
        turn_gradients_off,
        change_device,
        open_contexts,
        change_process,
        replace_streams,
        take_signals,
    )
}


class CarelessAgent(CalculatorAgent):
    """The quickstart's agent; it leaves a mess."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Answer the question, then do the deed."""
        output = await super().execute(workflow_task, tuner)
        DEEDS[AGENT]()
        return output


class CarelessJudge(ExactAnswer):
    """The quickstart's judge; it leaves a mess."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> Any:
        """Judge the answer, then do the deed."""
        verdict = super().compute_reward(workflow_task, workflow_output)
        DEEDS[JUDGE]()
        return verdict
