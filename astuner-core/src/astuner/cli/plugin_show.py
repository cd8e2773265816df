"""`astuner plugin show`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from astuner.cli.plugin_rows import aligned, as_json, row_of, status_of
from astuner.errors import PluginError, UsageError

if TYPE_CHECKING:
    from astuner.plugins.describe import OptionDescription


@click.command()
@click.argument("kind")
@click.argument("name")
@as_json
def show(kind: str, name: str, in_json: bool) -> int:
    """Show one component: where it is from, what it needs, and its options. NAME may be whatever a configuration takes."""
    from astuner.plugins.catalog import Catalog
    from astuner.plugins.describe import describe_options
    from astuner.plugins.drivers import load
    from astuner.plugins.kinds import KINDS, kind_of

    try:
        kind = kind_of(kind)
    except KeyError as error:
        raise UsageError(f"plugin show: no kind {kind!r}; there are: {', '.join(KINDS)}") from error
    candidate = Catalog.discover(kinds=(kind,)).find(kind, name, config_dir=Path.cwd(), key="plugin show")
    row, doc = row_of(candidate), ""
    options: tuple[OptionDescription, ...] = ()
    try:
        target = load(candidate)
    except PluginError as error:
        row["problem"] = str(error)
    else:
        doc = _first_sentence(target)
        options = describe_options(getattr(target, "Options", None))
    if in_json:
        listed = [_option_row(option) for option in options]
        click.echo(json.dumps({**row, "doc": doc, "options": listed}, indent=2, default=str))
    else:
        click.echo("\n".join([*_facts(row, doc), *_options(options, loaded=row["problem"] is None)]))
    return 0 if row["problem"] is None else 1


def _facts(row: Mapping[str, Any], doc: str) -> list[str]:
    origin = f"{row['dist']} {row['version']}" if row["dist"] else "a path"
    facts = [
        ("from", origin),
        ("target", row["target"]),
        ("made for", f"astuner-core{row['core_requirement']}" if row["core_requirement"] else "any astuner-core"),
        ("status", status_of(row)),
    ]
    return [f"{row['kind']} {row['name']}", *([doc] if doc else []), "", aligned(facts)]


def _options(options: Sequence[OptionDescription], *, loaded: bool) -> list[str]:
    if not options:
        return ["", "no options"] if loaded else []
    lines = ["", "options:"]
    for option in options:
        given = "required" if option.required else f"default {json.dumps(option.default, default=str)}"
        lines += [f"  {option.name}: {option.type} ({given})", *([f"      {option.doc}"] if option.doc else [])]
    return lines


def _option_row(option: OptionDescription) -> dict[str, Any]:
    return {
        "name": option.name,
        "type": option.type,
        "required": option.required,
        "default": option.default,
        "doc": option.doc,
    }


def _first_sentence(target: Any) -> str:
    doc = getattr(target, "__doc__", None) or ""
    return " ".join(doc.strip().split("\n\n")[0].split())
