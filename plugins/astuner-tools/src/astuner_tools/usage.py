"""A program's memory, and its remaining idle time."""

from __future__ import annotations

import contextlib
import time

from astuner.shared.processes.process_members import find_members, read_mark
from astuner.shared.processes.program_record import ProgramRecord, RecordFiles


def memory_bytes(record: ProgramRecord) -> int:
    """Return the resident memory of all processes of a program; shared pages count for each."""
    import psutil

    total = 0
    found: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        found.append(psutil.Process(record.pid))
    if record.program is None:
        with contextlib.suppress(psutil.Error):
            found += [child for one in found for child in one.children(recursive=True) if read_mark(child) is None]
    else:
        found += find_members(record.id, record.pid)
    for process in found:
        with contextlib.suppress(psutil.Error):
            total += process.memory_info().rss
    return total


def idle_left_s(record: ProgramRecord) -> float | None:
    """Return how long a leased program may still be idle; None for one without such a limit."""
    if record.lease is None or record.lease.idle_s is None:
        return None
    with contextlib.suppress(OSError):
        return max(0.0, record.lease.idle_s - (time.time() - RecordFiles.of(record.id).lease.stat().st_mtime))
    return 0.0
