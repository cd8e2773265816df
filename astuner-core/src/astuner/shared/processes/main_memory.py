"""The memory of this machine."""

from __future__ import annotations

from pathlib import Path


def measure_main_memory_bytes(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Return the memory of the machine, or the container's limit if that is lower."""
    import psutil

    total: int = psutil.virtual_memory().total
    try:
        limit = (cgroup / "memory.max").read_text(encoding="utf-8").strip()
    except OSError:
        return total
    return total if limit == "max" else min(total, int(limit))
