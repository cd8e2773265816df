"""The number of GPUs available to this process, without loading their drivers."""

from __future__ import annotations

import os
import shutil
import subprocess

VISIBLE = "CUDA_VISIBLE_DEVICES"
ANSWER_S = 20.0


def gpu_count() -> int:
    """Return how many NVIDIA GPUs the driver lists and `CUDA_VISIBLE_DEVICES` allows; 0 if the driver does not answer."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return 0
    try:
        listing = subprocess.run([command, "-L"], capture_output=True, text=True, timeout=ANSWER_S, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return 0
    there = sum(line.startswith("GPU ") for line in listing.splitlines())
    visible = os.environ.get(VISIBLE)
    if visible is None:
        return there
    # CUDA also ignores entries after an invalid one; an empty value hides all GPUs.
    chosen = [entry for entry in visible.split(",") if entry.strip() and entry.strip() != "-1"]
    return min(there, len(chosen))
