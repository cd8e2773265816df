"""The traceback of what users' code raised: from its own first line on, and not longer than a page."""

from __future__ import annotations

import traceback

from attrs import frozen

from astuner.episodes.containment.code_lines import find_line_of_error, is_installed, is_own
from astuner.episodes.containment.endings import CodeEnded

LONGEST = 6000
"""Characters of a traceback that are kept; of a longer one the middle is left out."""


@frozen(kw_only=True)
class RaisedAt:
    """Where users' code raised an error. Plain text, so that it crosses a pipe."""

    place: str = ""
    """The innermost place in the user's own files, as `agent.py:12 in solve`; empty if the error came from none of them."""
    traceback: str = ""


NOWHERE = RaisedAt()


def locate_error(error: BaseException) -> RaisedAt:
    """Return where an error was raised, or the one that led to it."""
    while error.__cause__ is not None and (isinstance(error, CodeEnded) or not _passed_users_code(error)):
        error = error.__cause__
    if not _passed_users_code(error):
        return RaisedAt(traceback=format_traceback(error))
    return RaisedAt(place=find_line_of_error(error) or "", traceback=format_traceback(error))


def format_traceback(error: BaseException) -> str:
    """Return the traceback of an error and of its causes, without the calls of this package that led to users' code."""
    try:
        found = traceback.TracebackException.from_exception(error, compact=True)
        _drop_callers(found, set())
        text = "".join(found.format()).rstrip()
    except Exception as fault:  # noqa: BLE001 - an error of users' code may raise whatever is done to it
        return f"{type(error).__name__} cannot be shown: {type(fault).__name__}"
    if len(text) <= LONGEST:
        return text
    head, tail = LONGEST // 3, LONGEST * 2 // 3
    return f"{text[:head]}\n[... {len(text) - head - tail:,} characters ...]\n{text[-tail:]}"


def _drop_callers(one: traceback.TracebackException, seen: set[int]) -> None:
    if id(one) in seen:
        return
    seen.add(id(one))
    first = next((place for place, entry in enumerate(one.stack) if _is_of_user(entry.filename)), 0)
    del one.stack[:first]
    for other in (one.__cause__, one.__context__, *(one.exceptions or ())):
        if other is not None:
            _drop_callers(other, seen)


def _passed_users_code(error: BaseException) -> bool:
    return any(_is_of_user(entry.filename) for entry in traceback.extract_tb(error.__traceback__))


def _is_of_user(filename: str) -> bool:
    return not is_own(filename) and not is_installed(filename)
