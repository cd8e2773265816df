"""Space for the run: on the disk of its directory, and in memory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from astuner_tools.doctor.rows import Row

LITTLE_DISK_BYTES = 5 * 2**30
LITTLE_MEMORY_BYTES = 2 * 2**30


def space_rows(run_directory: Path) -> Iterator[Row]:
    """Yield free disk space where the run directory is or would be, and free memory."""
    there = next(path for path in (run_directory, *run_directory.parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        detail = f"{run_directory} cannot be written: {there} is not a directory that this user may write to"
        yield Row(area="space", what="disk", status="broken", detail=detail, remedy="set experiment_dir")
    else:
        free = shutil.disk_usage(there).free
        detail = f"{_format_gib(free)} free at {run_directory}"
        if free < LITTLE_DISK_BYTES:
            yield Row(area="space", what="disk", status="warning", detail=detail, remedy="free some space, or set experiment_dir")
        else:
            yield Row(area="space", what="disk", detail=detail)
    available = measure_available_memory_bytes()
    little = available < LITTLE_MEMORY_BYTES
    yield Row(area="space", what="memory", status="warning" if little else "ok", detail=f"{_format_gib(available)} available")


def measure_available_memory_bytes(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the memory still available, within the container's limit if any."""
    import psutil

    available = psutil.virtual_memory().available
    try:
        limit = (cgroup / "memory.max").read_text(encoding="utf-8").strip()
        used = int((cgroup / "memory.current").read_text(encoding="utf-8"))
    except OSError:
        return available
    return available if limit == "max" else max(min(available, int(limit) - used), 0)


def _format_gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
