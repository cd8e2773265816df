"""Stops in the code of a workflow, a judge or a reader that wait there until their tag is asked for: `astuner run --db TAG`."""

from __future__ import annotations

import os
import sys

from astuner.breakpoints.selection import TAGS

__all__ = ["breakpoint"]


def breakpoint(tag: str) -> None:  # noqa: A001 - it is read as `astuner.breakpoint`, and does what its namesake does
    """Stop in the debugger at the caller's next line, if `astuner run --db` names this tag; else do nothing.

    The debugger is the one that is attached (debugpy), Ray's own in a worker of Ray, or pdb where there is a terminal. A tag
    holds no comma, no `|` and no space; `all` is none, since `--db all` names every tag.
    """
    if TAGS in os.environ:
        from astuner.breakpoints.stopping import stop

        stop(tag, sys._getframe(1))
