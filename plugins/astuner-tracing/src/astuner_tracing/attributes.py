"""Reading the attributes of a span, which writers keep under dotted keys, nested, or as JSON in a string."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

_KEPT_BELOW = (
    "agent",
    "agentscope",
    "astuner",
    "conversation",
    "feedback",
    "gen_ai",
    "input",
    "llm",
    "openinference",
    "output",
    "session",
    "tool",
    "traceloop",
    "user_feedback",
)
"""Prefixes of the keys that tasks are made from. Others (such as HTTP headers) are not stored."""


def keep_relevant(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that tasks are made from."""
    return {key: value for key, value in attributes.items() if key.partition(".")[0] in _KEPT_BELOW}


def get_at(attributes: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted path, however its keys are nested; None if there is none."""
    if path in attributes:
        return attributes[path]
    cut = path.rfind(".")
    while cut > 0:
        inner = attributes.get(path[:cut])
        # Not `Mapping`, which is much slower to check: JSON holds dicts, and this runs for every key of every span.
        if type(inner) is dict and (found := get_at(inner, path[cut + 1 :])) is not None:
            return found
        cut = path.rfind(".", 0, cut)
    return None


def get_first(attributes: Mapping[str, Any], *paths: str) -> Any:
    """Return the first non-empty value."""
    return next((value for path in paths if (value := get_at(attributes, path)) not in (None, "", [], {})), None)


def get_text(attributes: Mapping[str, Any], *paths: str) -> str | None:
    """Return the first value that is text, without the quotes that AgentScope 1 writes around some."""
    for path in paths:
        value = get_at(attributes, path)
        if isinstance(value, str) and value.strip():
            inner = parse_json(value) if value.startswith('"') else value
            return inner if isinstance(inner, str) else value
    return None


def get_tree(attributes: Mapping[str, Any], path: str) -> Any:
    """Return everything below a dotted path as one tree; numeric keys become a list. None if there is nothing."""
    whole = get_at(attributes, path)
    if whole is not None and not isinstance(whole, Mapping | list):
        return whole
    tree: dict[str, Any] = {}
    for below, value in _leaves(attributes, path):
        _grow(tree, below.split("."), value)
    return _to_lists(whole if isinstance(whole, list) else tree) if tree or whole else None


def parse_json(text: str) -> Any:
    """Parse a text as JSON; return the text itself if it is not."""
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _leaves(attributes: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for key, value in attributes.items():
        if key.startswith(f"{path}."):
            yield key[len(path) + 1 :], value
        elif key == path and isinstance(value, Mapping):
            yield from value.items()
        elif path.startswith(f"{key}.") and isinstance(value, Mapping):
            yield from _leaves(value, path[len(key) + 1 :])


def _grow(tree: dict[str, Any], path: list[str], value: Any) -> None:
    if isinstance(value, Mapping):
        # An object's keys may be dotted too.
        for key, inner in value.items():
            _grow(tree, [*path, *str(key).split(".")], inner)
        return
    if isinstance(value, list):
        value = [_grow_item(item) for item in value]
    for key in path[:-1]:
        inner = tree.get(key)
        if not isinstance(inner, dict):
            inner = tree[key] = {}
        tree = inner
    if not isinstance(tree.get(path[-1]), dict):
        tree[path[-1]] = value


def _grow_item(item: Any) -> Any:
    if not isinstance(item, Mapping):
        return item
    tree: dict[str, Any] = {}
    for key, value in item.items():
        _grow(tree, str(key).split("."), value)
    return tree


def _to_lists(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_to_lists(_grow_item(item)) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if tree and all(key.isdecimal() for key in tree):
        return [_to_lists(tree[key]) for key in sorted(tree, key=int)]
    return {key: _to_lists(value) for key, value in tree.items()}
