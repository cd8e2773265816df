"""What the driver and torch see of GPUs. Torch runs in its own process: importing it takes seconds and may crash."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from astuner_tools.doctor.rows import Row

DRIVER_TIMEOUT_S = 10
TORCH_TIMEOUT_S = 120

_QUERY = ("--query-gpu=name,memory.total,memory.free,driver_version", "--format=csv,noheader,nounits")
_ASK_TORCH = """
import json, torch
there = torch.cuda.is_available()
names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())] if there else []
print(json.dumps({"cuda": torch.version.cuda, "gpus": names, "threads": torch.get_num_threads()}))
"""


def gpu_rows() -> Iterator[Row]:
    """Yield each GPU of the driver, and whether torch sees it."""
    found = list(_driver_rows())
    yield from found
    yield from _torch_rows(expected=sum(row.status == "ok" for row in found))


def _driver_rows() -> Iterator[Row]:
    command = shutil.which("nvidia-smi")
    if command is None:
        yield Row(area="gpu", what="driver", status="missing", detail="no nvidia-smi: runs use the CPU")
        return
    try:
        result = subprocess.run([command, *_QUERY], capture_output=True, text=True, timeout=DRIVER_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Row(area="gpu", what="driver", status="warning", detail=f"nvidia-smi does not answer: {error}")
        return
    lines = [line for line in result.stdout.splitlines() if line.strip()]
    if result.returncode or not lines:
        reason = next(iter([*result.stderr.splitlines(), *lines]), f"exit code {result.returncode}")
        yield Row(area="gpu", what="driver", status="warning", detail=f"nvidia-smi: {reason.strip()}", remedy="repair the driver")
        return
    for index, line in enumerate(lines):
        yield Row(area="gpu", what=f"GPU {index}", detail=_describe_gpu(line))


def _describe_gpu(line: str) -> str:
    fields = [field.strip() for field in line.split(",")]
    if len(fields) != 4:
        return line.strip()
    name, total, free, driver = fields
    return f"{name}, {free} of {total} MiB free, driver {driver}"


def _torch_rows(expected: int) -> Iterator[Row]:
    try:
        what = f"torch {version('torch')}"
    except PackageNotFoundError:
        return
    try:
        seen = _ask_torch()
    except subprocess.TimeoutExpired:
        yield Row(area="gpu", what=what, status="warning", detail=f"does not answer within {TORCH_TIMEOUT_S} s")
        return
    except ValueError as error:
        yield Row(area="gpu", what=what, status="broken", detail=str(error), remedy="python -c 'import torch' shows all of it")
        return
    built = f"built for CUDA {seen['cuda']}" if seen["cuda"] else "built without CUDA"
    if seen["gpus"]:
        yield Row(area="gpu", what=what, detail=f"{built}, sees {', '.join(seen['gpus'])}")
    elif expected:
        detail = f"{built}, sees no GPU, though the driver shows {expected}"
        remedy = "check CUDA_VISIBLE_DEVICES" if seen["cuda"] else "install a CUDA build of torch"
        yield Row(area="gpu", what=what, status="warning", detail=detail, remedy=remedy)
    else:
        yield Row(area="gpu", what=what, detail=f"{built}, CPU with {seen['threads']} threads")


def _ask_torch() -> dict[str, Any]:
    """Return what torch reports; raises `ValueError` with the last line of its error if it cannot be imported."""
    command = [sys.executable, "-c", _ASK_TORCH]
    result = subprocess.run(command, capture_output=True, text=True, timeout=TORCH_TIMEOUT_S, check=False)
    if result.returncode:
        reason = next(iter(result.stderr.strip().splitlines()[-1:]), f"exit code {result.returncode}")
        raise ValueError(f"cannot be imported: {reason}")
    seen: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return seen
