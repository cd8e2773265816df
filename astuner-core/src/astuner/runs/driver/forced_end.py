"""Ending the process of a run whose main thread cannot be brought to end it."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from astuner.contract.errors import Interrupted
from astuner.contract.protocols import EpisodeStore
from astuner.episodes.containment.code_lines import find_line_of_thread
from astuner.episodes.containment.leftovers import end_processes_of_rollouts
from astuner.episodes.containment.process_exit import end_process_now
from astuner.runs.store.directory import RunDirectory
from astuner.shared.processes.program_record import ProgramRecord, RecordFiles

CLOSED_WITHIN_S = 5.0
"""For the loggers to be closed: they may wait for the main thread."""


def end_by_force(
    directory: RunDirectory,
    store: EpisodeStore,
    record: ProgramRecord,
    close_loggers: Callable[[], object],
    resume_command: str | None = None,
) -> None:
    """Save what there is and end this process as interrupted. Guards end what it has started; locks end with it.

    `record` lists the process as a run, which it is until the end; `resume_command` continues it, if something can.
    Called outside of the main thread, which is blocked: nothing here may wait for it for long.
    """
    line = find_line_of_thread(threading.main_thread().ident or 0)
    text = (
        f"the run did not end, since its main thread is blocked{f' at {line}' if line else ''}: the process is ended now. What "
        f"was finished is stored{f'; continue with: {resume_command}' if resume_command else ''}"
    )
    # The reader may be gone, and the disk full.
    with suppress(OSError):
        os.write(2, f"warning: {text}\n".encode())
    for act in (store.sync, lambda: directory.write_state(status="interrupted"), end_processes_of_rollouts):
        with suppress(Exception):
            act()
    closing = threading.Thread(target=close_loggers, name="astuner-closing", daemon=True)
    closing.start()
    closing.join(CLOSED_WITHIN_S)
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    RecordFiles.of(record.id).remove()
    end_process_now(Interrupted.exit_code)
