"""`astuner plugin show`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from attrs import asdict, frozen

from astuner.cli.output import align_columns, as_json, print_json
from astuner.cli.plugin_rows import describe_component, describe_status, find_kind
from astuner.contract.errors import PluginError
from astuner.contract.protocols.traits import find_options_class

if TYPE_CHECKING:
    from astuner_tools.option_docs import OptionDescription

Role = Literal["listens", "decides", "wraps", "unknown"]
EXAMPLE = """\b
Example:
  astuner plugin show reader dataset_file"""


@frozen(kw_only=True)
class ImplementedHook:
    """One method marked `@astuner.hookimpl`."""

    name: str
    """The hook."""
    role: Role
    """`unknown`: there is no such hook."""


@click.command(epilog=EXAMPLE)
@click.argument("kind")
@click.argument("name")
@as_json
def show(kind: str, name: str, in_json: bool) -> int:
    """Show one component: where it is from, what it needs, its hooks and its options. NAME is anything that a YAML accepts."""
    from astuner.settings.plugins.catalog import Catalog
    from astuner.settings.plugins.drivers import load
    from astuner_tools.option_docs import describe_options

    kind = find_kind(kind, "plugin show")
    catalog = Catalog.discover(kinds=(kind,))
    candidate = catalog.find(kind, name, config_dir=Path.cwd(), key="plugin show")
    row, doc = describe_component(candidate, catalog), ""
    options: tuple[OptionDescription, ...] = ()
    hooks: tuple[ImplementedHook, ...] = ()
    try:
        target = load(candidate)
    except PluginError as error:
        row["problem"] = str(error)
    else:
        doc = _read_first_paragraph(target)
        options, hooks = describe_options(find_options_class(target)), _find_implemented_hooks(target)
    if in_json:
        listed = {"hooks": list(map(asdict, hooks)), "options": [asdict(option, recurse=False) for option in options]}
        print_json({**row, "doc": doc, **listed})
    else:
        click.echo(
            "\n".join([*_format_facts(row, doc), *_format_hooks(hooks), *_format_options(options, loaded=row["problem"] is None)])
        )
    return 0 if row["problem"] is None else 1


def _find_implemented_hooks(target: object) -> tuple[ImplementedHook, ...]:
    """Return the hooks of a class or an object by its marked methods alone, without constructing or registering it."""
    import pluggy

    from astuner.contract.hookspecs import PROJECT, SPECS
    from astuner.settings.plugins.extension import DECIDING, iterate_marked_methods

    known = {name for specs in SPECS for name in vars(specs)}
    found = []
    for hook, _, opts in iterate_marked_methods(pluggy.PluginManager(PROJECT), target):
        role: Role = "wraps" if opts["wrapper"] else "decides" if hook.startswith(DECIDING) else "listens"
        found.append(ImplementedHook(name=hook, role=role if hook in known else "unknown"))
    return tuple(found)


def _format_facts(row: Mapping[str, Any], doc: str) -> list[str]:
    origin = f"{row['dist']} {row['version']}" if row["dist"] else "a path"
    facts = [
        ("from", origin),
        ("target", row["target"]),
        ("made for", f"astuner-core{row['core_requirement']}" if row["core_requirement"] else "any astuner-core"),
        ("status", describe_status(row)),
    ]
    return [f"{row['kind']} {row['name']}", *([doc] if doc else []), "", align_columns(facts)]


def _format_hooks(hooks: Sequence[ImplementedHook]) -> list[str]:
    if not hooks:
        return []
    roles = {"listens": "listens", "decides": "decides", "wraps": "wraps", "unknown": "there is no such hook"}
    return ["", "hooks:", *(f"  {hook.name}: {roles[hook.role]}" for hook in hooks)]


def _format_options(options: Sequence[OptionDescription], *, loaded: bool) -> list[str]:
    if not options:
        return ["", "no options"] if loaded else []
    lines = ["", "options:"]
    for option in options:
        given = "required" if option.required else f"default {json.dumps(option.default, default=str)}"
        lines += [f"  {option.name}: {option.type} ({given})", *([f"      {option.doc}"] if option.doc else [])]
    return lines


def _read_first_paragraph(target: Any) -> str:
    doc = (target.help if isinstance(target, click.Command) else getattr(target, "__doc__", None)) or ""
    return " ".join(doc.strip().split("\n\n")[0].split())
