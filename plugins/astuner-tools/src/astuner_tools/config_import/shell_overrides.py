"""The keys that a shell script sets on a command line, as in `python3 -m trainer.main data.train_batch_size=1024 …`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from astuner.contract.errors import ConfigError, Problem
from astuner.settings.config.trees import Tree, put
from astuner.settings.config.yaml_lines import read_yaml
from astuner_tools.config_import.shell_script import find_unknown, list_commands

__all__ = ["ShellOverrides", "read_shell_overrides"]

_OVERRIDE = re.compile(r"\+{0,2}(?P<key>[A-Za-z_]\w*(?:\.[A-Za-z_0-9]\w*)*)=(?P<value>.*)", re.DOTALL)
_REMOVAL = re.compile(r"~(?P<key>[A-Za-z_]\w*(?:\.[A-Za-z_0-9]\w*)*)(?:=.*)?", re.DOTALL)
_ESCAPED = re.compile(r"\\([\\()\[\]{}:=,\s])")
REMOVED = "it removes a key of the trainer's own configuration, which is not taken over"

NOT_RUN = "which is not run here: set it yourself, or import the command that `bash -x` prints, saved as a script"


@frozen(kw_only=True)
class ShellOverrides:
    """What a script sets."""

    tree: Tree
    """The values, nested. A variable that the script does not set is written `${oc.env:NAME}`."""
    without_value: Mapping[str, str] = field(factory=dict)
    """Dotted keys whose values the script alone does not say, with the reason."""


def read_shell_overrides(text: str, path: Path) -> ShellOverrides:
    """Return all `section.key=value` words of a script's commands; raises `ConfigError` if there are none."""
    try:
        commands = list_commands(text)
    except ValueError as error:
        message = f"this is not a shell script that can be read: {error}."
        raise ConfigError([Problem(message=message, file=path)]) from error
    values: dict[str, Any] = {}
    without_value: dict[str, str] = {}
    for key, value in (pair for words in commands for pair in _list_overrides(words)):
        without_value.pop(key, None)
        values.pop(key, None)
        unknown = None if value is None else find_unknown(value)
        if value is None:
            without_value[key] = REMOVED
        elif unknown is not None:
            without_value[key] = f"{unknown[1]}, {NOT_RUN}"
        else:
            values[key] = _parse(value, path)
    if not values:
        message = "no command of this script has a word `section.key=value`, as in data.train_batch_size=1024."
        raise ConfigError([Problem(message=message, file=path)])
    tree: Tree = {}
    for key, found in values.items():
        put(tree, key, found)
    return ShellOverrides(tree=tree, without_value=without_value)


def _list_overrides(words: list[str]) -> Iterator[tuple[str, str | None]]:
    """Yield the keys and values of a command, also of words of which nothing is known; no value for a key that it removes.

    A key without a dot counts in a command that has one with a dot, as a choice between configurations of the trainer.
    """
    found = [match for word in words[1:] if (match := _OVERRIDE.fullmatch(word) or _REMOVAL.fullmatch(word)) is not None]
    if not any("." in match["key"] for match in found):
        return
    for word in words[1:]:
        if (unknown := find_unknown(word)) is not None and not _OVERRIDE.fullmatch(word):
            yield unknown[0], word
    for match in found:
        if match["key"].islower() or "." in match["key"]:
            yield match["key"], match["value"] if match.re is _OVERRIDE else None


def _parse(value: str, path: Path) -> Any:
    if not value or ("${oc.env:" in value and value[:1] not in "[{"):
        return value
    if value[:1] not in "[{'\"":
        value = _ESCAPED.sub(r"\1", value)
    try:
        values: Any = read_yaml(f"value: {value}", path).values
    except ConfigError:
        return value
    return values["value"] if isinstance(values, dict) and list(values) == ["value"] else value
