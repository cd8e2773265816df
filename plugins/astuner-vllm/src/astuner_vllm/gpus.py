"""The GPUs for servers, as listed by the driver: importing torch for that takes seconds."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

DRIVER_TIMEOUT_S = 10


def visible_gpus() -> tuple[str, ...]:
    """Return the numbers or names of the GPUs that this process may use; none without a driver."""
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if allowed is not None:
        # A UUID or the name of a MIG slice works like a number.
        return tuple(name for part in allowed.split(",") if (name := part.strip()) and name != "-1")
    command = shutil.which("nvidia-smi")
    if command is None:
        return ()
    try:
        asked = subprocess.run(
            [command, "--query-gpu=index", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=DRIVER_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(line for line in asked.stdout.split() if line.isdigit()) if asked.returncode == 0 else ()


def has_no_gpu() -> bool:
    """Whether there is certainly no GPU: neither a driver's command nor any of its devices."""
    devices = ("/dev/nvidia0", "/dev/kfd", "/dev/dxg")
    return shutil.which("nvidia-smi") is None and not any(Path(device).exists() for device in devices)
