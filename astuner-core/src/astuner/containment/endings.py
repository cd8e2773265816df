"""What may end users' code: errors, which concern it alone, and requests of the user, which nothing may take for an error."""

from __future__ import annotations

import asyncio

from astuner.containment.code_lines import find_line_of_error
from astuner.errors import describe_error
from astuner.plain_values import read_text


class UserInterrupt(KeyboardInterrupt):
    """The user ends the run at once, by a second Ctrl-C or SIGTERM. Any other `KeyboardInterrupt` was raised by some code."""


class UserQuit(asyncio.CancelledError):
    """The user has left a debugger inside this code, which ends the run."""


class CodeEnded(Exception):
    """Users' code raised what is not an `Exception`, such as `SystemExit`; the message describes it."""


def is_requested(error: BaseException) -> bool:
    """Whether an error is a request of the run or its user in the current task, so that it has to go on."""
    if isinstance(error, UserInterrupt | UserQuit):
        return True
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def make_exception(error: BaseException) -> Exception:
    """Return the error, as a `CodeEnded` if it is not an `Exception`."""
    if isinstance(error, Exception):
        return error
    ended = CodeEnded(describe_ending(error))
    ended.__cause__ = error
    return ended


def describe_raised(error: BaseException, own_file: str | None = None) -> str:
    """Return an error as `KeyError: 'x' (agent.py:12)`, also one that has no text; `own_file` as in `describe_error`."""
    if isinstance(error, CodeEnded):
        return str(error)
    return describe_error(error, own_file=own_file) if isinstance(error, Exception) else describe_ending(error)


def describe_ending(error: BaseException) -> str:
    """Return an error that is not an `Exception` as `SystemExit: 2 (agent.py:12)`, with words for those that have none."""
    said = read_text(error)
    if isinstance(error, asyncio.CancelledError) and not said:
        said = "what it awaits was cancelled, and not by the run"
    line = find_line_of_error(error)
    place = "" if line is None else f" ({line})"
    return f"{type(error).__name__}{f': {said}' if said else ''}{place}"
