"""The keys that a shell script sets on a command line, as in `python3 -m trainer.main data.train_batch_size=1024 …`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from astuner.config.trees import Tree, put
from astuner.config.yaml_lines import read_yaml
from astuner.errors import ConfigError, Problem

_KEY = re.compile(r"\+{0,2}(?P<key>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)=(?P<value>.*)", re.DOTALL)
_ASSIGNMENT = re.compile(r"(?:export\s+)?(?P<name>[A-Za-z_]\w*)=(?P<value>.*)", re.DOTALL)
_DEFAULT = re.compile(r"\$\{(?P<name>\w+):-(?P<default>[^${}]*)\}")
_VARIABLE = re.compile(r"\$(?:\{(?P<braced>\w+)\}|(?P<plain>\w+))")


def read_shell_overrides(text: str, path: Path) -> Tree:
    """Return the tree of all `section.key=value` words of a script; raises `ConfigError` if there are none.

    A variable that the script sets is replaced by its value; any other is read from the environment when the run starts.
    """
    variables: dict[str, str] = {}
    tree: Tree = {}
    for word in _split(text, path):
        if (found := _KEY.fullmatch(word)) is not None:
            put(tree, found["key"], _parse(_expand(found["value"], variables), path))
        elif (found := _ASSIGNMENT.fullmatch(word)) is not None and not found["value"].startswith("("):
            variables[found["name"]] = _expand(found["value"], variables)
    if not tree:
        message = "no word of this script is `section.key=value`, as in data.train_batch_size=1024."
        raise ConfigError([Problem(message=message, file=path)])
    return tree


def _split(text: str, path: Path) -> Iterator[str]:
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars="();&|<>")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    try:
        yield from lexer
    except ValueError as error:
        message = f"this is not a shell script that can be read: {error}."
        raise ConfigError([Problem(message=message, file=path, line=lexer.lineno)]) from error


def _expand(value: str, variables: dict[str, str]) -> str:
    """Replace the variables that were set above; those of the environment are left to the run."""

    def find(found: re.Match[str]) -> str:
        name = found["braced"] or found["plain"]
        return variables.get(name, f"${{oc.env:{name}}}")

    with_defaults = _DEFAULT.sub(lambda found: variables.get(found["name"], found["default"]), value)
    return _VARIABLE.sub(find, with_defaults)


def _parse(value: str, path: Path) -> Any:
    if value.startswith("${"):
        return value
    try:
        values: Any = read_yaml(f"value: {value}", path).values
    except ConfigError:
        return value
    return values["value"] if isinstance(values, dict) else value
