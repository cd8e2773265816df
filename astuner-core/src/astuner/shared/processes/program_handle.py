"""A handle on a started program: whether it lives, its output, and ending it."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import define, field

from astuner.contract.errors import AstunerError
from astuner.shared.processes.program_record import ProgramRecord, RecordFiles
from astuner.shared.processes.program_registry import is_alive

if TYPE_CHECKING:
    import subprocess

    import psutil

TAIL_BYTES = 64 * 1024
TOUCH_S = 30.0
GUARD_LEAVES_S = 5.0
"""A guard whose program has ended exits sooner; one that does not is stuck."""


@define(eq=False, kw_only=True)
class ProgramHandle:
    """A program that this process started, or found again."""

    record: ProgramRecord
    _guard: subprocess.Popen[bytes] | None = field(default=None, alias="guard")
    """Held also for its pipe: the program is ended when that closes."""
    _status: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, None while it lives; the negative number of the signal that ended it."""
        if self._status is None:
            alive = self._guard.poll() is None if self._guard else is_alive(self.record)
            # Read after polling the guard, which writes the status before it exits.
            status = _status_on_disk(self.record)
            self._status = status if status is not None or alive else -signal.SIGKILL
        return self._status

    def end(self, grace_s: float = 10.0) -> None:
        """End the program and all that it started: SIGTERM, and SIGKILL after the grace. Idempotent."""
        from astuner.shared.processes.process_members import end_members

        stuck = end_members(self.members, grace_s)
        self._wait_for_guard()
        self.poll()
        files = RecordFiles.of(self.record.id)
        # The starter deletes the status file; files that are not read are swept later.
        for path in (files.record, files.lease, *([files.ended] if self._guard else [])):
            with suppress(OSError):
                path.unlink()
        if stuck:
            pids = ", ".join(map(str, stuck))
            raise AstunerError(
                f"{self.record.what}: SIGKILL does not end {pids}; they hang in the kernel, as on a lost file system"
            )

    def members(self) -> list[psutil.Process]:
        """Return its living processes, without the guard."""
        from astuner.shared.processes.process_members import find_members

        return find_members(self.record.id, self.record.pid)

    def tail(self, lines: int = 20) -> str:
        """Return the last lines of its output."""
        return "\n".join(self.read_output(TAIL_BYTES).splitlines()[-lines:])

    def read_output(self, most_bytes: int | None = None) -> str:
        """Return its output, or only the end of it."""
        if self.record.log is None:
            return ""
        try:
            with Path(self.record.log).open("rb") as log:
                end = log.seek(0, os.SEEK_END)
                log.seek(max(self.record.log_start, 0 if most_bytes is None else end - most_bytes))
                return log.read().decode(errors="replace")
        except OSError:
            return ""

    @contextmanager
    def keep_leased(self) -> Iterator[None]:
        """Use a leased program: it is not idle as long as the block lasts."""
        lease = RecordFiles.of(self.record.id).lease
        idle_s = self.record.lease.idle_s if self.record.lease else None
        done = threading.Event()

        def touch() -> None:
            # A missing lease is not recreated: the guard has removed it and is ending the program.
            with suppress(FileNotFoundError):
                os.utime(lease)

        def keep_touching(every_s: float) -> None:
            while not done.wait(every_s):
                touch()

        touch()
        every_s = TOUCH_S if idle_s is None else min(TOUCH_S, idle_s / 4)
        toucher = threading.Thread(target=keep_touching, args=(every_s,), name=f"lease {self.record.id}", daemon=True)
        toucher.start()
        with ExitStack() as held:
            with suppress(OSError):
                fcntl.flock(held.enter_context(lease.open()), fcntl.LOCK_SH)
            try:
                yield
            finally:
                done.set()
                toucher.join()
                touch()

    @property
    def in_use(self) -> bool:
        """Whether any process uses the leased program at this moment; see `keep_leased`."""
        try:
            with RecordFiles.of(self.record.id).lease.open() as lease:
                fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def _wait_for_guard(self) -> None:
        import psutil

        until = time.monotonic() + GUARD_LEAVES_S
        while is_alive(self.record):
            if time.monotonic() > until:
                with suppress(psutil.Error):
                    psutil.Process(self.record.pid).kill()
                return
            time.sleep(0.02)


def _status_on_disk(record: ProgramRecord) -> int | None:
    try:
        status = json.loads(RecordFiles.of(record.id).ended.read_text(encoding="utf-8"))["status"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return status if isinstance(status, int) else None
