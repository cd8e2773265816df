"""Breakpoints in the code of a workflow, a judge or a reader, enabled by tag: `astuner run --db TAG`."""

from __future__ import annotations

import os
import sys

from astuner.breakpoints.selection import TAGS

__all__ = ["breakpoint"]


def breakpoint(tag: str, frames: int = 0) -> None:  # noqa: A001 - it is used as `astuner.breakpoint` and does what the builtin does
    """Stop in the debugger at the caller's next line, if `astuner run --db` names this tag.

    The debugger is debugpy if attached, Ray's own in a Ray worker, or pdb on a terminal. A tag contains no comma, `|` or space
    and is not `all`, since `--db all` names every tag. `frames` skips callers: 1 stops where the function that calls this was
    called.
    """
    if TAGS in os.environ:
        from astuner.breakpoints.stopping import reach

        if (stop := reach(tag)) is not None:
            stop(tag, sys._getframe(1 + frames))
