"""`astuner plugin new`."""

from __future__ import annotations

import shlex
import textwrap
from pathlib import Path

import click

from astuner.cli.output import as_json, print_json

EXAMPLE = """\b
Examples:
  astuner plugin new judge acme-strict
  astuner plugin new reader acme-tickets --name tickets --dir packages"""


@click.command(epilog=EXAMPLE, short_help="Create a small working package to start a plugin from.")
@click.argument("kind")
@click.argument("dist")
@click.option("--name", metavar="N", help="What a user writes to choose the component; derived from DIST by default.")
@click.option(
    "--dir",
    "parent",
    type=click.Path(path_type=Path),
    default=Path(),
    help="Where to create the directory DIST; here by default.",
)
@as_json
def new(kind: str, dist: str, name: str | None, parent: Path, in_json: bool) -> None:
    """Create the directory DIST: a small working package with one component of a KIND, its tests and its README.

    KIND is reader, judge, tracker, logger, backbone, engine, environment, sandbox, detector, estimator, loss, sampler,
    wire_api, hooks or command. The component is named after DIST, without a leading `astuner-` and with `_` for `-`, unless
    --name is given. Nothing is ever overwritten.
    """
    from astuner_devkit.scaffold.filling import fill_package, fill_usage
    from astuner_devkit.scaffold.kinds import find_scaffolded_kind
    from astuner_devkit.scaffold.names import choose_names
    from astuner_devkit.scaffold.writing import write_package

    names = choose_names(find_scaffolded_kind(kind), dist, name)
    directory, files = parent / dist, fill_package(names)
    write_package(directory, files)
    if in_json:
        print_json({"directory": directory, "files": [directory / file for file in files], "next": _list_steps(directory, dist)})
        return
    paths, steps = (f"  {file}" for file in files), (f"  {step}" for step in _list_steps(directory, dist))
    click.echo("\n".join([f"{directory}/", *paths, "", "next:", *steps, "", "and to use it:"]))
    click.echo(textwrap.indent(fill_usage(names), "  "), nl=False)


def _list_steps(directory: Path, dist: str) -> list[str]:
    place = str(directory) if directory.is_absolute() else f"./{directory}"
    commands = (["pip", "install", "-e", f"{place}[test]"], ["pytest", str(directory)], ["astuner", "plugin", "check", dist])
    return [*map(shlex.join, commands)]
