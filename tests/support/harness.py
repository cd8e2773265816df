"""Running the command line as a user does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]

Cli = Callable[..., "subprocess.CompletedProcess[str]"]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1", **(extra or {})}


SMALL = (
    "--backbone=local",
    "--set=data.train_batch_size=3",
    "--set=rollout.num_repeat=4",
    "--set=trainer_common.total_training_steps=4",
    "--set=trainer_common.val_before_train=false",
    "--set=trainer_common.test_freq=-1",
    "--set=trainer_common.save_freq=2",
    "--set=trainer_common.optim.lr_scheduler_type=constant",
)
"""A run of seconds on the quickstart's project."""
