"""`astuner ps`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from astuner.cli.output import align_columns, as_json, print_json
from astuner.settings.config.redaction import redact_tree, redact_values

if TYPE_CHECKING:
    from astuner.shared.processes import ProgramRecord

GIB, MIB = 2**30, 2**20


EXAMPLE = """\b
Example:
  astuner ps --json"""


@click.command(epilog=EXAMPLE)
@as_json
def ps(in_json: bool) -> None:
    """List the runs, services and servers that astuner started on this machine and that are still running."""
    from astuner.shared.processes import list_programs

    rows = [_describe_program(record) for record in list_programs()]
    if in_json:
        print_json(rows)
    elif not rows:
        click.echo("nothing that astuner started is running", err=True)
    else:
        heads = ("ID", "KIND", "NAME", "PID", "SINCE", "MEMORY", "AT", "KEPT", "DIRECTORY", "LOG")
        click.echo(align_columns([heads, *map(_format_cells, rows)]))


def _describe_program(record: ProgramRecord) -> dict[str, Any]:
    from astuner_tools.usage import idle_left_s, memory_bytes

    return {
        "id": record.id,
        "kind": record.kind,
        "name": record.name,
        "pid": record.program or record.pid,
        "since": record.started,
        "port": record.port,
        "url": record.url and redact_values(record.url),
        "directory": record.directory,
        "log": record.log,
        "memory_bytes": memory_bytes(record),
        "kept": record.lease is not None,
        "idle_left_s": idle_left_s(record),
        "command": list(record.command),
        # The facts of a kept server include its API key.
        "facts": redact_tree(record.facts),
    }


def _format_cells(row: dict[str, Any]) -> tuple[str, ...]:
    left_s = row["idle_left_s"]
    kept = "" if not row["kept"] else "until stopped" if left_s is None else f"{left_s:.0f} s more"
    at = row["url"] or (f"port {row['port']}" if row["port"] else "")
    said = (_format_age(row["since"]), _format_memory(row["memory_bytes"]), at, kept)
    cells = (row["id"], row["kind"], row["name"], row["pid"], *said, row["directory"], row["log"])
    return tuple("-" if cell in (None, "") else str(cell) for cell in cells)


def _format_age(since: str) -> str:
    try:
        seconds = int((datetime.now(UTC) - datetime.fromisoformat(since)).total_seconds())
    except (TypeError, ValueError):
        return since
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _format_memory(count: int) -> str:
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / MIB:.0f} MiB"
