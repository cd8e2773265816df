"""Taking secrets out of configurations and texts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from astuner.settings.config.places import format_path
from astuner.settings.config.secret_forms import FLAG, REDACTED, is_secret_option, redact_command_line, redact_keys, redact_values
from astuner.settings.config.secret_names import is_command, is_flag, is_secret
from astuner.settings.config.trees import change_leaves

__all__ = ["REDACTED", "is_secret", "redact_keys", "redact_text", "redact_tree", "redact_values", "restore_variables"]

_ENVIRONMENT = re.compile(r"\$\{oc\.env:\s*\w+\s*\}")


def redact_tree(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy without secrets: texts under a key such as `api_key`, and texts that look like one (`sk-…`)."""
    return {key: _redact(value, is_secret(str(key))) for key, value in tree.items()}


def restore_variables(tree: Mapping[str, Any], from_environment: Mapping[str, str], start: str = "") -> dict[str, Any]:
    """Write what came from the environment as `${oc.env:NAME}`: such a value may be a secret under any key.

    `start` is the dotted path of the tree, to which `from_environment` is relative.
    """
    restored: dict[str, Any] = change_leaves(
        tree,
        lambda value, path: from_environment.get(format_path(path, start), value),
        is_leaf=lambda path: format_path(path, start) in from_environment,
    )
    return restored


def redact_text(text: str) -> str:
    """Take the secrets out of a YAML text, leaving everything else, comments too, as it was written."""
    values, commands = _find_secret_spans(text)
    for start, end in sorted(values | commands, reverse=True):
        shown = redact_command_line(text[start:end]) if (start, end) in commands else REDACTED
        text = text[:start] + shown + text[end:]
    return redact_values(text)


def _redact(value: Any, secret: bool, command: bool = False) -> Any:
    if isinstance(value, Mapping):
        return {key: _redact(item, secret or is_secret(str(key)), is_command(str(key))) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_redact(item, secret or is_flag(before), command) for before, item in pairwise(["", *value])]
    if not isinstance(value, str) or not value or _ENVIRONMENT.fullmatch(value):
        return value
    if secret:
        return REDACTED
    return redact_command_line(value) if command else redact_values(value)


def _find_secret_spans(text: str) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """Return where the values of secret keys stand in a YAML, and commands with a secret option."""
    import yaml

    spans: set[tuple[int, int]] = set()

    def walk(node: Any, secret: bool, command: bool = False) -> None:
        # Aliases are one node in many places.
        if (visit := (id(node), secret, command)) in visited:
            return
        visited.add(visit)
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                walk(value, secret or is_secret(str(key.value)), is_command(str(key.value)))
        elif isinstance(node, yaml.SequenceNode):
            for before, item in pairwise([None, *node.value]):
                walk(item, secret or is_flag(getattr(before, "value", "")), command)
        elif node.tag.endswith(":str") and node.value and not _ENVIRONMENT.fullmatch(node.value):
            place = (node.start_mark.index, node.end_mark.index)
            if secret:
                spans.add(place)
            elif command and any(map(is_secret_option, FLAG.finditer(node.value))):
                commands.add(place)

    commands: set[tuple[int, int]] = set()
    visited: set[tuple[int, bool, bool]] = set()
    for document in yaml.compose_all(text, yaml.SafeLoader):
        walk(document, secret=False)
    return spans, commands
