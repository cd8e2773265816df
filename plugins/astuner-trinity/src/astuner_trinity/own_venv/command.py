"""`astuner setup`: the virtual environments of backbones that cannot share the user's."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
from attrs import asdict

from astuner.cli.output import align_columns, as_json, print_json
from astuner.contract.errors import PluginError, UsageError

if TYPE_CHECKING:
    from astuner.contract.protocols import Candidate, OwnVenv, VenvState
    from astuner_trinity.own_venv.request import SetupRequest

FILE = click.Path(exists=True, dir_okay=False, resolve_path=True, path_type=Path)


EXAMPLE = """\b
Examples:
  astuner setup trinity
  astuner setup trinity --requirements requirements.txt --dry-run"""


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
    from astuner_trinity.own_venv.request import SetupRequest

    request = SetupRequest(requirements=requirements, overrides=overrides, without=without)
    if backbone is not None:
        place, packages = _set_up(backbone, request, directory.absolute() if directory else None, dry_run=dry_run)
        if in_json:
            print_json({"backbone": backbone, "directory": place, "packages": packages})
        elif packages is not None:
            click.echo("\n".join(packages))
        return
    if request != SetupRequest() or directory or dry_run:
        raise UsageError("astuner setup: name the backbone, as in `astuner setup NAME`; without a name it lists them")
    _list(in_json=in_json)


def _set_up(
    backbone: str, request: SetupRequest, directory: Path | None, *, dry_run: bool
) -> tuple[Path | None, list[str] | None]:
    """Return the environment, if there is one now, and of a dry run the packages with their versions."""
    from astuner.settings.plugins.catalog import Catalog
    from astuner_trinity.own_venv.builder import set_up
    from astuner_trinity.own_venv.locked_venv import LockedVenv
    from astuner_trinity.own_venv.resolution import resolve_setup

    candidate = Catalog.discover(kinds=("backbone",)).find("backbone", backbone, config_dir=Path.cwd(), key="astuner setup")
    own = _find_own_venv(candidate)
    if own is None:
        _say(f"the backbone '{backbone}' runs in this environment ({sys.prefix}): there is nothing to set up")
        return Path(sys.prefix), None
    state = own.examine(candidate.name)
    if not isinstance(own, LockedVenv):
        how = f": {state.command}" if state.command else ""
        raise UsageError(f"astuner setup {backbone}: this backbone's own package makes its environment{how}")
    if not dry_run and state.status == "in place":
        _say(f"{own.in_place_with} is installed in this environment ({sys.prefix}): there is nothing to set up")
        return Path(sys.prefix), None
    if dry_run:
        with tempfile.TemporaryDirectory() as work:
            return None, resolve_setup(candidate.name, own, request, Path(work), _say).packages
    home, count = set_up(candidate.name, own, request, directory, _say)
    _say(f"done: {home} has {count} packages; `astuner run --backbone {backbone}` enters it")
    return home, None


def _list(*, in_json: bool) -> None:
    states = list(_examine_all())
    if in_json:
        print_json([{**asdict(state), "directory": state.directory} for state in states])
    elif states:
        rows = [(state.backbone, state.status, str(state.directory), state.command) for state in states]
        click.echo(align_columns([("BACKBONE", "STATE", "DIRECTORY", "COMMAND"), *rows]))
    else:
        click.echo("no installed backbone needs a virtual environment of its own")


def _examine_all() -> Iterator[VenvState]:
    """Yield the states of all installed backbones with an environment of their own; broken plugins are left out."""
    from astuner.settings.plugins.catalog import Catalog

    for candidate in Catalog.discover(kinds=("backbone",)).candidates("backbone"):
        with suppress(PluginError):
            if (own := _find_own_venv(candidate)) is not None:
                yield own.examine(candidate.name)


def _find_own_venv(candidate: Candidate) -> OwnVenv | None:
    """Return what a backbone knows of its environment; None if it uses that of the user. Imports its class."""
    from astuner.contract.protocols import BackboneTraits, read_traits
    from astuner.settings.plugins.drivers import load

    return read_traits(load(candidate), BackboneTraits).own_venv


def _say(text: str) -> None:
    click.echo(text, err=True)
