"""The worker on a machine without an accelerator."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed

import astuner_verl.cpu.engine  # noqa: F401  # registers the engine
from astuner_verl.worker import PacedActor


class CpuActor(PacedActor):
    """Joins the others only over gloo: verl names the CPU twice there, which torch refuses."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Join, then initialise as usual."""
        torch.set_num_threads(1)
        if not torch.distributed.is_initialized():
            rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
            torch.distributed.init_process_group("gloo", rank=rank, world_size=size)
        super().__init__(*args, **kwargs)
