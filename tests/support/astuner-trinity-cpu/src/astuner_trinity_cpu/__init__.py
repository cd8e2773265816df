"""For tests alone: Trinity-RFT on a machine without GPUs and without vLLM."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from astuner.errors import UsageError
from astuner.processes.gpus import gpu_count

PATHS = Path(__file__).parent / "paths"


def variables() -> dict[str, str]:
    """Return the environment of Trinity's processes; raises `UsageError` beside a GPU or a real vLLM."""
    if gpu_count():
        raise UsageError(
            "astuner-trinity-cpu is for tests without a GPU, and this machine has one: pip uninstall astuner-trinity-cpu"
        )
    try:
        found = version("vllm")
    except PackageNotFoundError:
        pass
    else:
        raise UsageError(f"astuner-trinity-cpu stands in for vLLM, and vLLM {found} is installed: pip uninstall one of the two")
    paths = [str(PATHS), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "OMP_NUM_THREADS": "1",
        "ASTUNER_TRINITY_CPU": "1",
        # Ray hides GPUs from workers that ask for none; there are none to hide.
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }
