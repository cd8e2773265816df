"""The help of commands, read from their source: listing commands imports none of them."""

from __future__ import annotations

import ast
import inspect
import re
from importlib.metadata import PackageNotFoundError, metadata
from importlib.util import resolve_name
from pathlib import Path

from astuner.settings.plugins.module_files import find_source, walk_statements

MOST_HOPS = 5
"""Imports that are followed from module to module."""


def read_command_help(target: str, dist: str) -> str:
    """Return the first sentence of the help of the command at `module:name`, or the summary of its distribution."""
    module, _, name = target.partition(":")
    return _first_sentence(_help_of(module, name) or "") or _summary(dist)


def _help_of(module: str, name: str, hops: int = 0) -> str | None:
    file = find_source(module, None)
    if not isinstance(file, Path) or hops > MOST_HOPS:
        return None
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (OSError, SyntaxError, ValueError):
        return None
    found = None
    for node in walk_statements(tree.body):
        match node:
            case ast.FunctionDef() if node.name == name:
                found = _find_given_help(list(filter(_makes_a_command, node.decorator_list))) or ast.get_docstring(node)
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                other = value.id if isinstance(value, ast.Name) else None
                found = _help_of(module, other, hops + 1) if other else _find_given_help([value])
            case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value) if target == name:
                found = _find_given_help([value])
            case ast.ImportFrom():
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        found = _help_of(_find_imported_module(node, module, file), alias.name, hops + 1)
    return found


def _makes_a_command(decorator: ast.expr) -> bool:
    """Distinguish `@click.command(…)` and `@group.group(…)` from `@click.option(…)`, whose help is the option's."""
    match decorator:
        case ast.Call(func=ast.Attribute(attr=name)) | ast.Call(func=ast.Name(id=name)):
            return name in ("command", "group")
    return False


def _find_given_help(calls: list[ast.expr]) -> str | None:
    """Return the help passed to a call such as `click.command(help=…)`."""
    given = {
        keyword.arg: keyword.value.value
        for call in calls
        if isinstance(call, ast.Call)
        for keyword in call.keywords
        if isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, str)
    }
    return given.get("short_help") or given.get("help")


def _find_imported_module(node: ast.ImportFrom, module: str, file: Path) -> str:
    package = module if file.name == "__init__.py" else module.rpartition(".")[0]
    return resolve_name("." * node.level + (node.module or ""), package) if node.level else node.module or ""


def _first_sentence(text: str) -> str:
    paragraph = " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())
    return re.split(r"(?<=[.!?])\s", paragraph, maxsplit=1)[0]


def _summary(dist: str) -> str:
    try:
        return str(metadata(dist).json.get("summary", ""))
    except PackageNotFoundError:
        return ""
