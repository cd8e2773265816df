"""`astuner logview show`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from astuner.cli.output import as_json
from astuner.contract.errors import UsageError
from astuner_logview.server.address import PUBLIC_URL

KEY = "ASTUNER_LOGVIEW_KEY"
TOKEN = "ASTUNER_LOGVIEW_TOKEN"
"""The one-time token of a server that a run starts; the run prints the address."""
LEAST_KEY = 16
"""Characters."""
EXAMPLE = """\b
Examples:
  astuner logview show
  astuner logview show launcher_record/my-experiment --port 8010 --no-open"""


@click.command(epilog=EXAMPLE)
@click.argument("directories", nargs=-1, metavar="[DIR]...", type=click.Path(path_type=Path))
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="The port to listen on; by default a free one.")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help=f"The address to listen on. Any but loopback needs a key of {LEAST_KEY} characters in {KEY}.",
)
@click.option(
    "--public-url",
    envvar=PUBLIC_URL,
    help=f"The address at which a proxy (JupyterHub, VS Code) serves the port; {{port}} in it is the port. Or {PUBLIC_URL}.",
)
@click.option(
    "--open/--no-open",
    "opens",
    default=None,
    help="Open the browser. By default it is opened from a terminal on a desktop, and not over SSH.",
)
@as_json
def show(directories: tuple[Path, ...], port: int, host: str, public_url: str | None, opens: bool | None, in_json: bool) -> None:
    """Show runs in the browser until Ctrl-C.

    DIR is a run, the name of one in launcher_record, or a directory of runs; by default launcher_record. Runs may be running,
    and nothing in them is changed. The address works once, in one browser; press Enter for another one.
    """
    import asyncio

    from astuner.cli.output import print_json
    from astuner.model.http_server import is_loopback
    from astuner_logview.library import Library
    from astuner_logview.server.viewer import Viewer

    key = os.environ.get(KEY) or None
    if is_loopback(host):
        key = None
    elif key is None or len(key) < LEAST_KEY:
        raise UsageError(
            f"--host {host} is reached from other machines: set {KEY} to a key of at least {LEAST_KEY} characters, which the "
            "browser will ask for. Or keep 127.0.0.1 and use a tunnel: ssh -L PORT:127.0.0.1:PORT"
        )
    else:
        click.echo(f"warning: what {host} serves is plain HTTP: whoever sees the traffic sees the texts and the key", err=True)
    roots = _find_roots(directories)
    token = os.environ.pop(TOKEN, None)
    viewer = Viewer(Library(roots), host=host, port=port, key=key, token=token, public_url=public_url)

    interactive = sys.stdin is not None and sys.stdin.isatty() and not in_json
    hint = "Enter: another address, " if interactive and key is None else ""
    once = "" if key is not None else "works once; "

    def print_start(address: str) -> None:
        if in_json:
            print_json({"url": address, "host": host, "port": viewer.port, "pid": os.getpid(), "roots": roots})
        else:
            click.echo(f"{_link(address)}  ({once}{hint}Ctrl-C: end)")

    if opens is None:
        opens = interactive and sys.stdout.isatty() and _has_desktop()
    asyncio.run(viewer.serve(print_start, opens=opens, on_enter=interactive))


def _find_roots(directories: tuple[Path, ...]) -> tuple[Path, ...]:
    from astuner.runs.inspection import RECORD
    from astuner_logview.commands import find_directory

    if directories:
        return tuple(find_directory(directory).absolute() for directory in directories)
    if not RECORD.is_dir():
        raise UsageError(f"there is no directory {RECORD} here: name a run, or a directory of runs")
    return (RECORD.absolute(),)


def _has_desktop() -> bool:
    if "SSH_CONNECTION" in os.environ:
        return False
    return sys.platform == "darwin" or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def _link(address: str) -> str:
    """Return an address, as a link where the terminal may know links."""
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        return address
    return f"\x1b]8;;{address}\x1b\\{address}\x1b]8;;\x1b\\"
