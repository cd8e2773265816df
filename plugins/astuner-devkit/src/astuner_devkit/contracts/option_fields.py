"""The fields of a component's options, and the strings under them."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, get_args, get_type_hints

import attrs


def describe_fields(options: type[Any] | None, prefix: str = "") -> Mapping[str, str]:
    """Return what is written under each field of an attrs class, and of attrs classes in it; empty for anything else."""
    found: dict[str, str] = {}
    if options is None or not attrs.has(options):
        return found
    docs, hints = _read_docs(options), _read_hints(options)
    for one in attrs.fields(options):
        kind = hints.get(one.name, one.type)
        nested = [part for part in (kind, *get_args(kind)) if isinstance(part, type) and attrs.has(part)]
        if nested and kind in (nested[0], nested[0] | None):
            found |= describe_fields(nested[0], f"{prefix}{one.name}.")
        else:
            found[prefix + one.name] = docs.get(one.name, "")
    return found


def _read_docs(options: type[Any]) -> Mapping[str, str]:
    docs: dict[str, str] = {}
    for base in reversed(options.__mro__):
        try:
            (made,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        except (OSError, TypeError, SyntaxError, ValueError):
            continue
        for statement, below in pairwise(getattr(made, "body", ())):
            match statement, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    docs[name] = text
    return docs


def _read_hints(options: type[Any]) -> Mapping[str, Any]:
    try:
        return get_type_hints(options)
    except NameError:
        # The type only exists for type checkers.
        return {}
