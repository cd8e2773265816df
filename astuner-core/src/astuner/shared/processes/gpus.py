"""The GPUs and the memory available to this process, without loading any driver."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

VISIBLE = "CUDA_VISIBLE_DEVICES"
ANSWER_S = 20.0


def gpu_count() -> int:
    """Return how many NVIDIA GPUs the driver lists and `CUDA_VISIBLE_DEVICES` allows; 0 if the driver does not answer."""
    there = sum(line.startswith("GPU ") for line in _ask_driver("-L"))
    visible = os.environ.get(VISIBLE)
    if visible is None:
        return there
    # CUDA also ignores entries after an invalid one; an empty value hides all GPUs.
    chosen = [entry for entry in visible.split(",") if entry.strip() and entry.strip() != "-1"]
    return min(there, len(chosen))


def smallest_gpu_bytes() -> int | None:
    """Return the memory of the smallest NVIDIA GPU that the driver lists; None if the driver does not answer."""
    sizes = [int(line) for line in _ask_driver("--query-gpu=memory.total", "--format=csv,noheader,nounits") if line.isdecimal()]
    return min(sizes) << 20 if sizes else None


def measure_main_memory_bytes(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the memory of the machine, or the container's limit if that is lower."""
    import psutil

    total: int = psutil.virtual_memory().total
    try:
        limit = (cgroup / "memory.max").read_text(encoding="utf-8").strip()
    except OSError:
        return total
    return total if limit == "max" else min(total, int(limit))


def _ask_driver(*arguments: str) -> list[str]:
    command = shutil.which("nvidia-smi")
    if command is None:
        return []
    try:
        asked = subprocess.run([command, *arguments], capture_output=True, text=True, timeout=ANSWER_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in asked.stdout.splitlines()]
