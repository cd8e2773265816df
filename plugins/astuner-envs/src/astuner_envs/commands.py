"""`astuner env`: serving environments, and listing them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from astuner.cli.output import as_json
from astuner.contract.errors import UsageError
from astuner_envs.access_token import TOKEN

if TYPE_CHECKING:
    from astuner_envs.server.settings import ServedWorld


@click.group()
def env() -> None:
    """Serve and list environments."""


SERVE_EXAMPLE = """\b
Examples:
  astuner env serve --env frozen_lake --port 8080
  astuner env serve --env corridor=./corridor.py:Corridor --tasks train=tasks.jsonl"""


@env.command(epilog=SERVE_EXAMPLE)
@click.option(
    "--env",
    "names",
    multiple=True,
    required=True,
    metavar="[NAME=]ENVIRONMENT",
    help="An installed environment, or ./file.py:Class, and the name that clients use; repeatable.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", default=8080, show_default=True, type=click.IntRange(0, 65535), help="The port to listen on; 0 picks a free one."
)
@click.option("--token", envvar=TOKEN, help=f"The token that clients must send; prefer to set {TOKEN}. By default one is made.")
@click.option("--no-token", is_flag=True, help="Accept clients without a token.")
@click.option("--max-instances", default=256, show_default=True, type=click.IntRange(1), help="Most instances at a time.")
@click.option(
    "--idle-timeout-s",
    default=3600.0,
    show_default=True,
    type=click.FloatRange(0, min_open=True),
    help="Seconds without requests after which an instance is closed.",
)
@click.option(
    "--step-timeout-s",
    default=120.0,
    show_default=True,
    type=click.FloatRange(0, min_open=True),
    help="Most seconds for one step.",
)
@click.option(
    "--memory-mb", default=2048, show_default=True, type=click.IntRange(64), help="Memory limit of an instance's process."
)
@click.option("--cpu-s", default=600, show_default=True, type=click.IntRange(1), help="CPU seconds that an instance may use.")
@click.option("--set", "values", multiple=True, metavar="[NAME.]KEY=VALUE", help="Set an option of the environment; repeatable.")
@click.option(
    "--tasks",
    "files",
    multiple=True,
    metavar="[NAME.]SPLIT=FILE",
    help="Read tasks from this file instead of the environment; repeatable.",
)
def serve(names: Sequence[str], values: Sequence[str], files: Sequence[str], **given: Any) -> None:
    """Serve environments over the EnvService protocol.

    Runs until interrupted, with one process per instance.
    """
    import asyncio
    import secrets

    from astuner_envs.server.serving import serve as serve_until_stopped
    from astuner_envs.server.settings import Limits, Settings

    token = given["token"] or None
    made = None
    if given["no_token"]:
        token = None
        if given["host"] not in ("127.0.0.1", "::1", "localhost"):
            click.echo(f"warning: everybody who reaches {given['host']} can play and start processes (--no-token)", err=True)
    elif token is None:
        token = made = secrets.token_urlsafe(24)
    limits = Limits(memory_mb=given["memory_mb"], cpu_s=given["cpu_s"], step_timeout_s=given["step_timeout_s"])
    settings = Settings(
        worlds=parse_served(names, values, files),
        config_dir=Path.cwd(),
        host=given["host"],
        port=given["port"],
        token=token,
        max_instances=given["max_instances"],
        idle_timeout_s=given["idle_timeout_s"],
        limits=limits,
    )

    def print_start(host: str, port: int) -> None:
        if made is not None:
            click.echo(
                f"token for this server, made for this time only; clients find it in {TOKEN}:\nexport {TOKEN}={made}", err=True
            )
        described = (describe_client(world, host, port) for world in settings.worlds)
        click.echo("\n".join((f"Starting server on {host}:{port}", *described)))

    asyncio.run(serve_until_stopped(settings, print_start))


LIST_EXAMPLE = """\b
Example:
  astuner env list --json"""


@env.command("list", epilog=LIST_EXAMPLE)
@as_json
def list_(in_json: bool) -> None:
    """List the installed environments, to play in process or to serve."""
    from astuner.cli.output import align_columns, print_json
    from astuner.cli.plugin_rows import describe_component, describe_status
    from astuner.settings.plugins.catalog import Catalog

    catalog = Catalog.discover(kinds=("environment",))
    rows = [describe_component(candidate, catalog) for candidate in catalog.candidates("environment")]
    if in_json:
        print_json(rows)
        return
    if not rows:
        click.echo("no environment is installed", err=True)
        return
    cells = [(row["name"], f"{row['dist']} {row['version']}", row["target"], describe_status(row)) for row in rows]
    click.echo(align_columns([("NAME", "FROM", "CLASS", "STATUS"), *cells]))


def parse_served(names: Sequence[str], values: Sequence[str], files: Sequence[str]) -> tuple[ServedWorld, ...]:
    """Return what to serve; raises `UsageError` for a name given twice, or an option that fits none of them."""
    from attrs import evolve

    from astuner.settings.config.yaml_lines import read_yaml
    from astuner_envs.server.settings import ServedWorld

    served = [ServedWorld(name=name, component=component) for name, component in map(_split_name, names)]
    worlds = {world.name: world for world in served}
    if len(worlds) < len(served):
        raise UsageError("astuner env serve: --env gives one name twice; write --env NAME=ENVIRONMENT to choose another")
    for item in values:
        name, key, text = _split(item, worlds, "--set")
        value = read_yaml(f"value: {text}", Path(f"--set {key}")).values["value"]
        worlds[name] = evolve(worlds[name], options={**worlds[name].options, key: value})
    for item in files:
        name, key, text = _split(item, worlds, "--tasks")
        worlds[name] = evolve(worlds[name], task_files={**worlds[name].task_files, key: Path(text)})
    return tuple(worlds.values())


def _split_name(text: str) -> tuple[str, str]:
    """Return the name that clients use, and the environment; a class in a file is called after its class."""
    name, equals, component = text.partition("=")
    if equals:
        return name, component
    path, colon, class_name = text.rpartition(":")
    if not colon or not path.endswith(".py"):
        return text, text
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", class_name).lower(), text


def describe_client(world: ServedWorld, host: str, port: int) -> str:
    """Return what an environment is called, and the YAML that plays it."""
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    what = "" if world.component == world.name else f" ({world.component})"
    return (
        f"{world.name}{what}; in the YAML of a run:\n"
        f'  task_reader: {{type: env_service, env_service: {{env_type: {world.name}, env_url: "{url}"}}}}'
    )


def _split(item: str, worlds: dict[str, ServedWorld], option: str) -> tuple[str, str, str]:
    """Return environment, key and text of `NAME.KEY=TEXT`; the name may be left out if only one is served."""
    left, equals, text = item.partition("=")
    name, dot, key = left.rpartition(".")
    if not dot and len(worlds) == 1:
        name = next(iter(worlds))
    if not equals or not key or name not in worlds:
        raise UsageError(f"astuner env serve: {option} {left}: write [NAME.]KEY=VALUE, with NAME one of {', '.join(worlds)}")
    return name, key, text
