"""Descriptions of a component's options: names, types, defaults and the docs written under the fields."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, get_args, get_type_hints

import attrs
from attrs import frozen

from astuner.settings.config.redaction import redact_tree

_MODULES = re.compile(r"\b(?:[a-z_][\w]*\.)+(?=[A-Za-z])")
"""The modules before a name: `collections.abc.Mapping`."""


@frozen(kw_only=True)
class OptionDescription:
    """One key that a user may write."""

    name: str
    """Dotted below the component's section."""
    type: str
    required: bool
    default: Any
    """None if it is required."""
    doc: str


def describe_options(options: type[Any] | None) -> tuple[OptionDescription, ...]:
    """Return the fields of an attrs class, those of nested attrs classes included, in their order."""
    return tuple(_describe_fields(options, "")) if options is not None and attrs.has(options) else ()


def read_field_docs(cls: type[Any]) -> Mapping[str, str]:
    """Return the string under each field of a class and its bases, by field name; empty if there is no source to read."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        except (OSError, TypeError, SyntaxError):
            continue
        body = tree.body[0].body if tree.body and isinstance(tree.body[0], ast.ClassDef) else []
        for statement, following in pairwise(body):
            match statement, following:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    docs[name] = " ".join(text.split())
    return docs


def _describe_fields(options: type[Any], prefix: str) -> Iterator[OptionDescription]:
    docs = read_field_docs(options)
    hints = _read_hints(options)
    for attribute in attrs.fields(options):
        kind = hints.get(attribute.name, attribute.type)
        nested = [part for part in (kind, *get_args(kind)) if isinstance(part, type) and attrs.has(part)]
        if nested and kind in (nested[0], nested[0] | None):
            yield from _describe_fields(nested[0], f"{prefix}{attribute.name}.")
            continue
        yield OptionDescription(
            name=prefix + attribute.name,
            type=_format_type(kind),
            required=attribute.default is attrs.NOTHING,
            default=_read_default(attribute),
            doc=docs.get(attribute.name, ""),
        )


def _read_hints(options: type[Any]) -> Mapping[str, Any]:
    try:
        return get_type_hints(options)
    except NameError:
        # The type only exists for type checkers: its text, as written, is enough.
        return {}


def _format_type(kind: Any) -> str:
    text = kind if isinstance(kind, str) else inspect.formatannotation(kind)
    return _MODULES.sub("", text).replace("NoneType", "None")


def _read_default(attribute: attrs.Attribute[Any]) -> Any:
    default: Any = attribute.default
    if default is attrs.NOTHING:
        return None
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]  # attrs types the class as a function
        default = "(computed)" if default.takes_self else default.factory()
    # A default may come from the environment, and be a secret.
    return redact_tree({attribute.name: default})[attribute.name] if isinstance(default, str | Mapping) else default
