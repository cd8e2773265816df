"""`astuner setup`: the virtual environments of backbones that cannot share the user's."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click
from attrs import asdict

from astuner.cli.options import as_json
from astuner.cli.output import align_columns, print_json
from astuner.contract.errors import UsageError

if TYPE_CHECKING:
    from astuner.settings.venvs.request import SetupRequest

FILE = click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path)


EXAMPLE = """\b
Examples:
  astuner setup BACKBONE
  astuner setup BACKBONE --requirements requirements.txt --dry-run"""


@click.command(epilog=EXAMPLE, short_help="Make the virtual environment that a backbone needs for itself.")
@click.argument("backbone", required=False)
@click.option("--requirements", multiple=True, type=FILE, help="Further requirements; repeatable.")
@click.option("--overrides", multiple=True, type=FILE, help="Requirements that replace others, untested; repeatable.")
@click.option("--without", multiple=True, metavar="PACKAGE", help="Leave a package out; `*` is all but plugins. Repeatable.")
@click.option("--dir", "directory", type=click.Path(file_okay=False, path_type=Path), help="Make it here, and link to it.")
@click.option("--dry-run", is_flag=True, help="Print every package and its version, and install nothing.")
@as_json
def setup(
    backbone: str | None,
    requirements: tuple[Path, ...],
    overrides: tuple[Path, ...],
    without: tuple[str, ...],
    directory: Path | None,
    dry_run: bool,
    in_json: bool,
) -> None:
    """Make the virtual environment that BACKBONE needs for itself, with the packages of this one; without BACKBONE, list them.

    Commands that use the backbone enter it. A second call brings it up to date.
    """
    from astuner.settings.venvs.request import SetupRequest

    request = SetupRequest(requirements=requirements, overrides=overrides, without=without)
    if backbone is not None:
        _set_up(backbone, request, directory.absolute() if directory else None, dry_run=dry_run)
        return
    if request != SetupRequest() or directory or dry_run:
        raise UsageError("astuner setup: name the backbone, as in `astuner setup NAME`; without a name it lists them")
    _list(in_json=in_json)


def _set_up(backbone: str, request: SetupRequest, directory: Path | None, *, dry_run: bool) -> None:
    from astuner.settings.plugins.catalog import Catalog
    from astuner.settings.venvs.builder import set_up
    from astuner.settings.venvs.resolution import resolve_setup
    from astuner.settings.venvs.state import examine_venv, find_own_venv

    candidate = Catalog.discover(kinds=("backbone",)).find("backbone", backbone, config_dir=Path.cwd(), key="astuner setup")
    own = find_own_venv(candidate)
    if own is None:
        _say(f"the backbone '{backbone}' runs in this environment ({sys.prefix}): there is nothing to set up")
        return
    if not dry_run and examine_venv(candidate.name, own).status == "in place":
        _say(f"{own.in_place_with} is installed in this environment ({sys.prefix}): there is nothing to set up")
        return
    if dry_run:
        with tempfile.TemporaryDirectory() as work:
            resolution = resolve_setup(candidate.name, own, request, Path(work), _say)
            click.echo(resolution.pins.read_text(encoding="utf-8"), nl=False)
        return
    home, count = set_up(candidate.name, own, request, directory, _say)
    _say(f"done: {home} has {count} packages; `astuner run --backbone {backbone}` enters it")


def _list(*, in_json: bool) -> None:
    from astuner.settings.plugins.catalog import Catalog
    from astuner.settings.venvs.state import list_states

    states = list_states(Catalog.discover(kinds=("backbone",)))
    if in_json:
        print_json([{**asdict(state), "directory": str(state.directory)} for state in states])
    elif states:
        rows = [(state.backbone, state.status, str(state.directory), state.command) for state in states]
        click.echo(align_columns([("BACKBONE", "STATE", "DIRECTORY", "COMMAND"), *rows]))
    else:
        click.echo("no installed backbone needs a virtual environment of its own")


def _say(text: str) -> None:
    click.echo(text, err=True)
