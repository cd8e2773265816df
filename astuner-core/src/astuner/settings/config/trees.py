"""Nested mappings as in YAML: merging them, and listing and reaching their leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from astuner.settings.config.places import KeyPath

Tree = dict[str, Any]


def merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> Tree:
    """Lay one tree over another: sections are merged, everything else, lists too, is replaced."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def flatten(tree: Mapping[str, Any], start: str = "") -> dict[str, Any]:
    """Return the leaves by dotted path; lists and empty sections are leaves."""
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        # Configurations are flattened often: `format_path` costs a call for each leaf.
        path = f"{start}[{key}]" if isinstance(key, int) else f"{start}.{key}" if start else key
        if isinstance(value, Mapping) and value:
            leaves |= flatten(value, path)
        else:
            leaves[path] = value
    return leaves


def change_leaves(
    value: Any, change: Callable[[Any, KeyPath], Any], path: KeyPath = (), is_leaf: Callable[[KeyPath], bool] = lambda _: False
) -> Any:
    """Return a copy of nested mappings and lists in which each leaf is what `change` makes of it and its path.

    `is_leaf` says of paths whether the section or the list there is one.
    """
    if isinstance(value, Mapping) and not is_leaf(path):
        return {key: change_leaves(item, change, (*path, key), is_leaf) for key, item in value.items()}
    if isinstance(value, list | tuple) and not is_leaf(path):
        return [change_leaves(item, change, (*path, index), is_leaf) for index, item in enumerate(value)]
    return change(value, path)


def get(tree: Mapping[str, Any], key: str) -> Any:
    """Return the value at a dotted key; None if there is none."""
    found: Any = tree
    for part in key.split("."):
        if not isinstance(found, Mapping):
            return None
        found = found.get(part)
    return found


def put(tree: Tree, key: str, value: Any) -> None:
    """Set a dotted key."""
    *above, last = key.split(".")
    section = tree
    for part in above:
        if not isinstance(section.get(part), dict):
            section[part] = {}
        section = section[part]
    section[last] = value
