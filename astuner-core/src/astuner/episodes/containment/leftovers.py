"""What users' code leaves behind when it is over: child processes, which are ended, and threads, which are named."""

from __future__ import annotations

import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import Any

import psutil

from astuner.episodes.containment.threads import MOST_NAMED, describe_threads
from astuner.settings.config.secrets import redact_command
from astuner.shared.processes.process_environment import export_variables
from astuner.shared.processes.process_members import MARK, end_members, is_living, read_mark

EPISODES = "ASTUNER_EPISODES"
"""Environment variable that processes started by users' code inherit: which rollouts they belong to."""
CHILD_GRACE_S = 2.0
"""Between SIGTERM and SIGKILL."""


@contextmanager
def end_leftovers(notify: Callable[[str], None]) -> Iterator[None]:
    """At the end of the block, end the processes that users' code has started in it, and name its threads.

    Processes of the run itself are not touched: those that run under a guard, those that were there before, and what these start.
    """
    known = {process.pid for process in psutil.Process().children(recursive=True)}
    threads = set(threading.enumerate())
    token = f"{os.getpid()}-{token_hex(4)}"
    with export_variables({EPISODES: token}):
        try:
            yield
        finally:
            for text in (*_end_processes(token, known), *describe_threads(threads)):
                notify(text)


def find_processes(token: str, known: set[int]) -> list[psutil.Process]:
    """Return the living processes that belong to users' code.

    Those below this process, wherever in the tree but not below a known one, and any that carry the token in their environment.
    """
    trackers: tuple[Any, ...] = multiprocessing.resource_tracker._resource_tracker, multiprocessing.forkserver._forkserver
    needed = {trackers[0]._pid, trackers[1]._forkserver_pid}
    below = _find_below(known - needed)
    found = []
    for process in psutil.process_iter():
        if process.pid in known | needed or process.pid == os.getpid() or not is_living(process):
            continue
        if (process.pid in below or read_mark(process, EPISODES) == token) and not _is_of_program(process):
            found.append(process)
    return found


def _find_below(known: set[int]) -> set[int]:
    """Return the pids below this process without those that a known process, such as one of a logger, has started."""
    below: set[int] = set()
    of_known = set(known)
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            # A parent comes before its children.
            (of_known if process.ppid() in of_known else below).add(process.pid)
    return below


def _is_of_program(process: psutil.Process) -> bool:
    """Whether it belongs to a program that astuner started, whose guard ends it: the program carries another mark than this run.

    Engines overwrite the environment of their processes with a title; such a process belongs with its parent.
    """
    with suppress(psutil.Error):
        for one in (process, *process.parents()):
            if one.pid == os.getpid():
                return False
            if (mark := read_mark(one)) is not None:
                return mark != os.environ.get(MARK)
    return False


def end_processes_of_rollouts() -> None:
    """End the processes that carry the token of the rollouts under way, among them worker processes of the run."""
    if (token := os.environ.get(EPISODES)) is not None:
        end_members(lambda: [one for one in psutil.process_iter() if _is_other_of(token, one)], CHILD_GRACE_S)


def _is_other_of(token: str, process: psutil.Process) -> bool:
    is_other = read_mark(process, EPISODES) == token and process.pid != os.getpid()
    return is_other and is_living(process) and read_mark(process) == os.environ.get(MARK)


def _end_processes(token: str, known: set[int]) -> Sequence[str]:
    left = find_processes(token, known)
    if not left:
        return ()
    named = [f"{process.pid} ({_describe_command(process)})" for process in left[:MOST_NAMED]]
    more = f" and {len(left) - MOST_NAMED} more" if len(left) > MOST_NAMED else ""
    surviving = end_members(lambda: find_processes(token, known), CHILD_GRACE_S)
    text = f"users' code has left processes behind, which were ended: {', '.join(named)}{more}"
    return (text, f"these processes could not be ended: {', '.join(map(str, surviving))}") if surviving else (text,)


def _describe_command(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return " ".join(redact_command(process.cmdline()))[:120] or process.name()
    return "unknown"
