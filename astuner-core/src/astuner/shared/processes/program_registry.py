"""The programs that are alive, by their records."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

from astuner.shared.processes.program_record import (
    STATE_VARIABLE,
    ProgramRecord,
    RecordFiles,
    read_record,
    records_directory,
    write_record,
)

BORN_WITHIN_S = 1.0
"""The system's process start times are accurate to some hundredths of a second, and shift when the clock is set."""
KEEP_S = 3600.0


def list_programs() -> list[ProgramRecord]:
    """Return the living programs started on this machine, oldest first; records of dead ones are removed."""
    found = []
    with contextlib.suppress(OSError):
        for path in sorted(records_directory().iterdir()):
            if path.suffix == ".json" and (record := read_record(path)) is not None:
                if is_alive(record):
                    found.append(record)
                else:
                    with contextlib.suppress(OSError):
                        path.unlink()
            elif path.suffix in (".ended", ".lease") and not path.with_suffix(".json").exists():
                _sweep(path)
    return sorted(found, key=lambda record: record.started)


def _sweep(path: Path) -> None:
    """Remove files of a program that ended long ago. A recent one may still get its record or be asked for its status."""
    # Its owner may remove it at the same moment.
    with contextlib.suppress(OSError):
        if time.time() - path.stat().st_mtime > KEEP_S:
            path.unlink()


def is_alive(record: ProgramRecord) -> bool:
    """Whether the process of a record lives and is the same process: pids are reused."""
    import psutil

    from astuner.shared.processes.process_members import read_mark

    try:
        process = psutil.Process(record.pid)
        same = abs(process.create_time() - record.born) < BORN_WITHIN_S
        # A clock that is set moves every birth; no other process carries the mark of a guard.
        same = same or (record.kind != "run" and read_mark(process) == f"guard:{record.id}")
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def make_id() -> str:
    """Return an id that no program has."""
    while RecordFiles.of(program := token_hex(4)).record.exists():
        pass
    return program


def format_now() -> str:
    """Return the time in the format of records."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@contextmanager
def register_run(name: str, directory: Path, *, facts: Mapping[str, Any] | None = None) -> Iterator[ProgramRecord]:
    """List this process as a run while the block lasts; if the record cannot be written, print a warning."""
    import psutil

    from astuner.settings.config.secrets import redact_command

    record = ProgramRecord(
        id=make_id(),
        kind="run",
        name=name,
        pid=os.getpid(),
        born=psutil.Process().create_time(),
        command=tuple(redact_command(sys.argv)),
        directory=str(directory),
        started=format_now(),
        facts=dict(facts or {}),
    )
    try:
        write_record(record)
    except OSError as error:
        print(f"warning: `astuner ps` will not find this run: {error}; set {STATE_VARIABLE} to a directory", file=sys.stderr)
    try:
        yield record
    finally:
        RecordFiles.of(record.id).remove()
