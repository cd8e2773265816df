"""The `astuner` command. Commands are imported when they are used: `--help` and `plugin list` load no plugin."""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING

import click

from astuner.cli.commands import CommandGroup
from astuner.cli.output import print_json, reserve_stdout
from astuner.cli.own_venv import EnterVenv

if TYPE_CHECKING:
    from astuner.contract.errors import AstunerError, Problem

TRACEBACK = "ASTUNER_TRACEBACK"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code; a crash of native code prints the Python lines that were running."""
    with suppress(OSError, ValueError, AttributeError):  # there may be no stderr
        faulthandler.enable()
    _silence_progress_bars()
    try:
        status = exit_code_of(arguments)
    except KeyboardInterrupt:
        # One more, while the first was being answered.
        status = 130
    except Exception:  # noqa: BLE001 - shown as Python shows it; threads left behind must not hold up the end
        if sys.flags.optimize > 1:
            click.echo("error: with -OO (PYTHONOPTIMIZE=2) there are no docstrings, which libraries read: leave it out", err=True)
        else:
            sys.excepthook(*sys.exc_info())
        status = 1
    from astuner.episodes.containment.process_exit import exit_process

    exit_process(status)


def _silence_progress_bars() -> None:
    """Keep libraries, in child processes too, from drawing their bars into a file or a pipe."""
    if sys.stderr is None or not sys.stderr.isatty():
        for name in ("HF_HUB_DISABLE_PROGRESS_BARS", "HF_DATASETS_DISABLE_PROGRESS_BARS"):
            os.environ.setdefault(name, "1")


def exit_code_of(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 done, 1 failed, 2 usage or configuration, 130 interrupted.

    A command ends by returning (None, or an exit code) or by raising an `AstunerError`, which is shown without a traceback
    unless the environment sets `ASTUNER_TRACEBACK=1`. With `--json`, the error is also what is printed on stdout.
    """
    given = sys.argv[1:] if arguments is None else arguments
    in_json = "--json" in given
    try:
        with reserve_stdout() if in_json else nullcontext() as stdout:
            answer = astuner.main(args=given, prog_name="astuner", standalone_mode=False, obj=stdout)
    except EnterVenv as entering:
        entering.replace_process(given)
    except click.ClickException as error:
        error.show()
        return _fail(2, error.format_message(), in_json=in_json)
    except click.Abort:
        click.echo("interrupted", err=True)
        return _fail(130, "interrupted", in_json=in_json)
    except BrokenPipeError:
        # The reader (`| head`) is gone: what is still buffered must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        from astuner.contract.errors import AstunerError

        code, text = (error.exit_code, str(error)) if isinstance(error, AstunerError) else (1, f"{type(error).__name__}: {error}")
        _fail(code, text, getattr(error, "problems", ()), in_json=in_json)
        if not isinstance(error, AstunerError) or os.environ.get(TRACEBACK, "0") not in ("", "0"):
            raise
        click.echo(_format_error(error), err=True)
        return code
    return answer if type(answer) is int else 0


def _fail(exit_code: int, text: str, problems: Sequence[Problem] = (), *, in_json: bool) -> int:
    if in_json:
        from attrs import asdict

        with suppress(OSError):  # the reader is gone, or the disk full
            print_json({"error": text, "exit_code": exit_code, "problems": [*map(asdict, problems)]}, indent=None)
    return exit_code


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="astuner-core", prog_name="astuner")
def astuner() -> None:
    """Tune the weights behind an agent by reinforcement learning."""


def _format_error(error: AstunerError) -> str:
    from astuner.contract.errors import ConfigError, Interrupted

    if isinstance(error, ConfigError) and len(error.problems) > 1:
        return "\n".join([f"error: {len(error.problems)} problems", *(f"  {problem}" for problem in error.problems)])
    # The user has stopped it, and its state is saved.
    return str(error) if isinstance(error, Interrupted) else f"error: {error}"
