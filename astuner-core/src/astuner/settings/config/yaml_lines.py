"""Reading YAML into plain values together with the line of every key.

It differs from PyYAML's safe loader where that is surprising: `1e-6` is a number, a key is always text (`on:` is "on"), a date is
text, `010` and `1:30` are text, not octal or base-60 numbers, and a key given twice is an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from attrs import define, field, frozen

from astuner.contract.errors import ConfigError, Problem
from astuner.settings.config.places import KeyPath, format_path
from astuner.settings.config.yaml_bounds import BoundedLoader

_MERGE = "tag:yaml.org,2002:merge"
_SIMPLE_KEY = "while scanning a simple key"
_OPENED = (_SIMPLE_KEY, "while parsing a flow", "while scanning a quoted scalar")
INT = re.compile(r"[-+]?(0|[1-9][0-9_]*|0x[0-9a-fA-F]+)$")
FLOAT = re.compile(
    r"""[-+]?([0-9][0-9_]*\.[0-9_]*([eE][-+]?[0-9]+)?
        |[0-9][0-9_]*[eE][-+]?[0-9]+
        |\.[0-9]+([eE][-+]?[0-9]+)?
        |\.(inf|Inf|INF))$|\.(nan|NaN|NAN)$""",
    re.VERBOSE,
)


def _make_loader_class() -> Any:
    replaced = {"tag:yaml.org,2002:int", "tag:yaml.org,2002:float", "tag:yaml.org,2002:timestamp"}
    resolvers = {
        first: [(tag, pattern) for tag, pattern in known if tag not in replaced]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    loader: Any = type("Loader", (BoundedLoader,), {"yaml_implicit_resolvers": resolvers})
    loader.add_implicit_resolver("tag:yaml.org,2002:int", INT, list("-+0123456789"))
    loader.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, list("-+.0123456789"))
    return loader


_Loader = _make_loader_class()


@frozen(kw_only=True)
class Document:
    """The values of a YAML text, and their lines."""

    values: Any
    lines: Mapping[str, int]
    """Line of each key and list item, from 1, by dotted path."""


def read_yaml(text: str, file: Path) -> Document:
    """Read a YAML text; raise `ConfigError` with every duplicate key, or with the syntax error."""
    loader = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        walk = _Walk(loader=loader, file=file)
        values = None if node is None else walk.build_value(node, ())
    except yaml.MarkedYAMLError as error:
        # A missing end is noticed far below, often at the end of the file; the opening line is more helpful.
        opened = error.context_mark if str(error.context).startswith(_OPENED) else None
        mark = opened or error.problem_mark or error.context_mark
        message = f"This is not valid YAML: {error.problem or error.context}."
        if error.context == _SIMPLE_KEY:
            message += " A key is written `key: value`, with a space after the colon."
        raise ConfigError([Problem(message=message, file=file, line=mark.line + 1 if mark else None)]) from error
    except yaml.YAMLError as error:
        raise ConfigError([Problem(message=f"This is not valid YAML: {' '.join(str(error).split())}.", file=file)]) from error
    finally:
        if loader is not None:
            loader.dispose()
    if walk.problems:
        raise ConfigError(walk.problems)
    return Document(values=values, lines=walk.lines)


@define(eq=False)
class _Walk:
    """Turns composed nodes into values, noting lines and faults on the way."""

    loader: Any
    file: Path
    lines: dict[str, int] = field(factory=dict)
    problems: list[Problem] = field(factory=list)

    def build_value(self, node: Any, path: KeyPath) -> Any:
        if isinstance(node, yaml.MappingNode):
            return {key: self.build_value(item, (*path, key)) for key, item in self.collect_pairs(node, path).items()}
        if isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.lines[format_path((*path, index))] = item.start_mark.line + 1
            return [self.build_value(item, (*path, index)) for index, item in enumerate(node.value)]
        return self.build_scalar(node)

    def build_scalar(self, node: Any) -> Any:
        try:
            value = self.loader.construct_object(node)
        except ValueError as error:
            raise yaml.MarkedYAMLError(problem=str(error), problem_mark=node.start_mark) from error
        if value is not None and not isinstance(value, bool | int | float | str):
            raise yaml.MarkedYAMLError(problem=f"the tag {node.tag} is not supported", problem_mark=node.start_mark)
        return value

    def collect_pairs(self, node: Any, path: KeyPath) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, item in node.value:
            if key_node.tag == _MERGE:
                for source in item.value if isinstance(item, yaml.SequenceNode) else [item]:
                    if not isinstance(source, yaml.MappingNode):
                        raise yaml.MarkedYAMLError(problem="`<<` takes a mapping", problem_mark=item.start_mark)
                    merged = {**self.collect_pairs(source, path), **merged}
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                is_placeholder = isinstance(key_node, yaml.MappingNode) and key_node.flow_style
                hint = "; if `{{NAME}}` is a placeholder of a template, fill it in first" if is_placeholder else ""
                raise yaml.MarkedYAMLError(problem=f"a key must be a plain word{hint}", problem_mark=key_node.start_mark)
            key, line = key_node.value, key_node.start_mark.line + 1
            if key in own:
                first = self.lines[format_path((*path, key))]
                message = f"This key is already given in line {first}. Remove one of the two."
                self.problems.append(Problem(message=message, key=format_path((*path, key)), file=self.file, line=line))
                continue
            own[key] = item
            self.lines[format_path((*path, key))] = line
        return {**merged, **own}
