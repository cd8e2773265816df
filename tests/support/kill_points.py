"""Ends a command with SIGKILL before each of its changes below a folder in turn: the first, the second, and so on."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CHANGES = ("os.mkdir", "os.rename", "os.chmod", "os.remove", "os.rmdir", "os.truncate", "shutil.copyfile")
"""Audit events; `open` is one too if it is for writing."""


def kill_before_each_change(command: Callable[[], object], folder: Path) -> Iterator[int]:
    """Yield the number of a change after the command has been killed before it; ends with the command that nothing has killed.

    The command runs in a child of this process. An error of it is an error here.
    """
    number = 0
    while True:
        number += 1
        child = os.fork()
        if child == 0:
            _run_until(command, folder, number)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            assert os.waitstatus_to_exitcode(status) == 0
            return
        assert os.WTERMSIG(status) == signal.SIGKILL
        yield number


def _run_until(command: Callable[[], object], folder: Path, number: int) -> None:
    left = number

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        if event in CHANGES or (event == "open" and _is_for_writing(arguments)):
            left -= any(_lies_in(folder, argument) for argument in arguments)
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    try:
        command()
    except BaseException as error:  # noqa: BLE001 - this is the end of the process
        sys.stderr.write(f"{error!r}\n")
        os._exit(1)
    os._exit(0)


def _is_for_writing(arguments: tuple[Any, ...]) -> bool:
    return isinstance(arguments[2], int) and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def _lies_in(folder: Path, argument: object) -> bool:
    return isinstance(argument, str | os.PathLike) and Path(argument).absolute().is_relative_to(folder)
