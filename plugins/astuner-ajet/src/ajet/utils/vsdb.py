"""Breakpoints."""

from __future__ import annotations

import astuner

ANONYMOUS = "bp"
"""The tag of a breakpoint that has none."""


def bp(tag: str | None = None, once: bool = True) -> None:
    """Stop in the debugger if `astuner run --db` names this tag. `once` is accepted: `--db` decides how often it stops."""
    astuner.breakpoint(tag or ANONYMOUS, frames=1)


vscode_conditional_breakpoint = bp
