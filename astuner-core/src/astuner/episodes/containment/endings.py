"""What may end users' code: errors, which concern it alone, and requests of the user, which nothing may take for an error."""

from __future__ import annotations

import asyncio

from astuner.contract.plain_values import read_text
from astuner.episodes.containment.code_lines import find_line_of_error

BY_A_SCOPE = "Cancelled via cancel scope"
"""How anyio's message of a cancellation begins."""


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

    Of a group of errors, as task groups raise them, it is the first one, with the number of the others. The place is the
    innermost one of the user's own files, if there is one. It is left out if the caller itself, in `own_file`, has raised.
    """
    first, more = _find_first(error)
    if isinstance(first, CodeEnded):
        return str(first)
    said = _read_cancellation(first) if isinstance(first, asyncio.CancelledError) else read_text(first)
    text = type(first).__name__
    if said or isinstance(first, Exception):
        text += f": {said}"
    if more:
        text += f", and {more} more in its {type(error).__name__}"
    place = find_line_of_error(first, own_file) or find_line_of_error(error, own_file)
    return text if place is None else f"{text} ({place})"


def _read_cancellation(error: asyncio.CancelledError) -> str:
    said = read_text(error)
    if said.startswith(BY_A_SCOPE):
        # The rest has the address of the scope and the whole of a task.
        return "what it awaits was cancelled by a cancel scope of anyio, and not by the run"
    return said or "what it awaits was cancelled, and not by the run"


def _find_first(error: BaseException) -> tuple[BaseException, int]:
    """Return the first error of a group, however deep, and the number of the others; an error that is none, and 0."""
    if not isinstance(error, BaseExceptionGroup):
        return error, 0
    members = [_find_first(one) for one in error.exceptions]
    return members[0][0], sum(1 + more for _, more in members) - 1
