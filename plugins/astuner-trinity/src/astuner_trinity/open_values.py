"""Values of a native configuration that are open until a run knows its machine. Imports no Trinity."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from astuner.settings.config.trees import get, put

AUTO: Final = "auto"


def fill_open_values(native: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration with a placeholder of the right type for each open value, for Trinity's loader."""
    tree: dict[str, Any] = copy.deepcopy(dict(native))
    for key, value in (
        ("explorer.rollout_model.engine_num", 1),
        ("explorer.runner_per_model", 1),
        ("trainer.use_remove_padding", True),
        ("algorithm.optimizer.clip_grad", 1.0),
    ):
        if get(tree, key) == AUTO:
            put(tree, key, value)
    if get(tree, "synchronizer.sync_method") == AUTO:
        put(tree, "synchronizer.sync_method", "memory")
    return as_plain_tree(tree)


def as_plain_tree(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain YAML values."""
    return {key: _as_plain_value(value) for key, value in tree.items()}


def _as_plain_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return as_plain_tree(value)
    if isinstance(value, list | tuple):
        return [_as_plain_value(one) for one in value]
    return value
