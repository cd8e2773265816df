"""What may end users' code: errors, which concern it alone, and requests of the user, which nothing may take for an error."""

from __future__ import annotations

import asyncio

from astuner.containment.code_lines import find_line_of_error
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
    ended = CodeEnded(describe_raised(error))
    ended.__cause__ = error
    return ended


def describe_raised(error: BaseException, own_file: str | None = None) -> str:
    """Return an error as `KeyError: 'x' (agent.py:12 in solve)`, also one that has no text.

    The place is the innermost one of the user's own files, if there is one. It is left out if the caller itself, in
    `own_file`, has raised.
    """
    if isinstance(error, CodeEnded):
        return str(error)
    said = read_text(error)
    if isinstance(error, asyncio.CancelledError) and not said:
        said = "what it awaits was cancelled, and not by the run"
    if isinstance(error, Exception):
        text = f"{type(error).__name__}: {said}"
    else:
        text = f"{type(error).__name__}{f': {said}' if said else ''}"
    place = find_line_of_error(error, own_file)
    return text if place is None else f"{text} ({place})"
