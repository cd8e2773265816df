"""The `astuner` command in this process: for tests of commands and of plugins."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

from attrs import frozen

from astuner_devkit.isolation import undo_after


@frozen(kw_only=True)
class CommandResult:
    """The result of a command."""

    code: int
    """The exit code."""
    out: str
    """What it wrote to stdout."""
    err: str
    """What it wrote to stderr."""


def run_command(*arguments: object, cwd: Path) -> CommandResult:
    """Run `astuner` with these arguments in a directory. Unexpected errors are raised."""
    from astuner.cli import exit_code_of

    out, err = io.StringIO(), io.StringIO()
    streams = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    with undo_after(cwd), contextlib.chdir(cwd), streams[0], streams[1]:
        code = exit_code_of([str(argument) for argument in arguments])
    return CommandResult(code=code, out=out.getvalue(), err=err.getvalue())
