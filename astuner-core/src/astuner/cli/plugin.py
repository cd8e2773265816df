"""`astuner plugin`: what is installed, and what one component is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from astuner.errors import PluginError, UsageError

if TYPE_CHECKING:
    from astuner.plugins.catalog import Candidate
    from astuner.plugins.describe import OptionDescription

as_json = click.option("--json", "in_json", is_flag=True, help="One JSON document on stdout.")


@click.group()
def plugin() -> None:
    """List and show what is installed."""


@plugin.command("list")
@as_json
def list_(in_json: bool) -> None:
    """List every component that the installed distributions offer. Imports none of them."""
    from astuner.plugins.catalog import Catalog

    rows = [_row(candidate) for candidate in Catalog.discover().all()]
    if in_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        cells = [(row["kind"], row["name"], f"{row['dist']} {row['version']}", _status(row)) for row in rows]
        click.echo(_aligned([("KIND", "NAME", "FROM", "STATUS"), *cells]))


@plugin.command()
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
    row, doc = _row(candidate), ""
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


def _row(candidate: Candidate) -> dict[str, Any]:
    from astuner.plugins.compat import incompatibility

    return {
        "kind": candidate.kind,
        "name": candidate.name,
        "dist": candidate.dist,
        "version": candidate.version,
        "target": candidate.target,
        "core_requirement": candidate.core_requirement,
        "missing": list(candidate.missing),
        "remedy": candidate.remedy,
        "problem": incompatibility(candidate),
    }


def _status(row: Mapping[str, Any]) -> str:
    if row["problem"]:
        return str(row["problem"])
    return f"lacks {', '.join(row['missing'])}: {row['remedy']}" if row["missing"] else "ok"


def _facts(row: Mapping[str, Any], doc: str) -> list[str]:
    origin = f"{row['dist']} {row['version']}" if row["dist"] else "a path"
    facts = [
        ("from", origin),
        ("target", row["target"]),
        ("made for", f"astuner-core{row['core_requirement']}" if row["core_requirement"] else "any astuner-core"),
        ("status", _status(row)),
    ]
    return [f"{row['kind']} {row['name']}", *([doc] if doc else []), "", _aligned(facts)]


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


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
