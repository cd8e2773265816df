"""`astuner stop`."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from astuner.cli.output import as_json, print_json
from astuner.contract.errors import AstunerError, Problem, UsageError
from astuner.settings.config.structure_errors import find_closest

if TYPE_CHECKING:
    from astuner.shared.processes import ProgramRecord

LOOK_S = 0.1


EXAMPLE = """\b
Examples:
  astuner stop my-experiment
  astuner stop --all"""


@click.command(epilog=EXAMPLE)
@click.argument("names", nargs=-1, metavar="[NAME|RUN|ID]...")
@click.option("--all", "everything", is_flag=True, help="Stop everything that `astuner ps` lists.")
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(min=0),
    default=600.0,
    show_default=True,
    help="Seconds that a run may take to save.",
)
@as_json
def stop(names: tuple[str, ...], everything: bool, wait_s: float, in_json: bool) -> None:
    """Stop runs, services and servers that astuner started, and nothing else.

    NAME is a service or a server, RUN an experiment name or a run directory, ID what `astuner ps` shows. A run saves its state
    first, and continues with `astuner run --resume`.
    """
    from astuner.shared.processes import list_programs

    if everything == bool(names):
        raise UsageError("astuner stop: name what to stop, or give --all; `astuner ps` lists what is there")
    there = list_programs()
    ended: list[dict[str, object]] = []
    failed = []
    # Runs first: they end the services and servers that they hold.
    for record in sorted(there if everything else _find_programs(names, there), key=lambda one: one.kind != "run"):
        try:
            how = _end_run(record, wait_s) if record.kind == "run" else _end_program(record)
            click.echo(how, err=True)
            ended.append({"id": record.id, "kind": record.kind, "name": record.name, "how": how})
        except AstunerError as error:
            failed.append(str(error))
    if failed:
        raise AstunerError("\n".join(failed))
    if in_json:
        print_json({"ended": ended})


def _find_programs(names: Sequence[str], there: Sequence[ProgramRecord]) -> list[ProgramRecord]:
    """Return the programs that the names mean, each once; raises `UsageError` for an unknown or ambiguous name."""
    meant: dict[str, ProgramRecord] = {}
    for name in names:
        found = [one for one in there if name in (one.id, one.name)] or [one for one in there if _is_run_of(name, one)]
        if not found:
            raise UsageError(_describe_unknown_name(name, there))
        if len(found) > 1:
            which = ", ".join(f"{one.id} ({one.what}, pid {one.program or one.pid})" for one in found)
            raise UsageError(f"astuner stop {name}: that is {len(found)} programs: {which}. Give the ID")
        meant[found[0].id] = found[0]
    return list(meant.values())


def _is_run_of(name: str, record: ProgramRecord) -> bool:
    """Whether a name is the experiment of a run, or its directory."""
    if record.kind != "run" or record.directory is None:
        return False
    return name == record.facts.get("experiment_name") or Path(name).resolve() == Path(record.directory).resolve()


def _describe_unknown_name(name: str, there: Sequence[ProgramRecord]) -> str:
    listed = ", ".join(f"{one.what} ({one.id})" for one in there)
    message = f"astuner stop {name}: nothing with this name is running; running: {listed or 'nothing'}."
    return str(Problem(message=message, suggestion=find_closest(name, (one.name for one in there))))


def _end_program(record: ProgramRecord) -> str:
    from astuner.shared.processes import attach

    attach(record).end()
    return f"{record.what} (pid {record.program or record.pid}): ended"


def _end_run(record: ProgramRecord, wait_s: float) -> str:
    """Ask a run to save its state and exit; raises if it has not done so within `wait_s`."""
    import psutil

    from astuner.shared.processes import RecordFiles, is_alive

    # A run has no lease; the file goes away with its record.
    asked = RecordFiles.of(record.id).lease
    try:
        # psutil never signals a process that reused the pid.
        process = psutil.Process(record.pid)
        # A second signal would end it without saving.
        if is_alive(record) and not asked.exists():
            with suppress(OSError):
                asked.touch()
            process.send_signal(signal.SIGTERM)
    except psutil.NoSuchProcess:
        return f"{record.what}: had already ended"
    except psutil.AccessDenied as error:
        raise AstunerError(f"{record.what} (pid {record.pid}): it belongs to another user") from error
    until = time.monotonic() + wait_s
    while is_alive(record):
        if time.monotonic() > until:
            raise AstunerError(
                f"{record.what} (pid {record.pid}): asked to stop, and still saving after {wait_s:g} s; it ends when it is done. "
                f"Its log directory is {record.directory}/logs. To end it at once, losing what is not saved: kill -9 {record.pid}"
            )
        time.sleep(LOOK_S)
    return f"{record.what} (pid {record.pid}): ended, {_describe_state(record)}"


def _describe_state(record: ProgramRecord) -> str:
    from astuner.runs.store.directory import RunDirectory

    if record.directory is None:
        return "state unknown"
    try:
        state = RunDirectory(Path(record.directory)).state
    except UsageError as damaged:
        return f"state unknown ({damaged})"
    status = state.get("status")
    if status is None:
        return "stopped before its first step"
    at = f" at step {state['step']}" if "step" in state else ""
    return f"{status}{at}" + ("" if status == "finished" else "; continue with --resume")
