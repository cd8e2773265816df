"""The `config.json` of a model: in its directory, in the cache of the hub, or on the hub."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from astuner.settings.config.pretrained import explain_unreachable, find_download

NAME = "config.json"


def read_model_config(path: str, *, fetch: bool) -> dict[str, Any] | None:
    """Return the file's contents; None if it is not there, or not valid JSON.

    `fetch` also asks the hub for it, unless HF_HUB_OFFLINE is set.
    """
    file = Path(path) / NAME if Path(path).is_dir() else _find_on_hub(path, fetch)
    if file is None:
        return None
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def find_longest_context(config: Mapping[str, Any]) -> int | None:
    """Return the positions that a model was made for; None if that is not recorded, or they are scaled."""
    text = config.get("text_config")
    config = text if isinstance(text, Mapping) else config
    rope = config.get("rope_parameters") or config.get("rope_scaling")
    if isinstance(rope, Mapping) and rope.get("rope_type", rope.get("type", "default")) != "default":
        return None
    found = config.get("max_position_embeddings")
    return found if isinstance(found, int) else None


def _find_on_hub(name: str, fetch: bool) -> Path | None:
    if (downloaded := find_download(name, NAME)) is not None or not fetch or explain_unreachable(name):
        return downloaded
    try:
        from huggingface_hub import hf_hub_download

        return Path(hf_hub_download(name, NAME))
    # What the hub raises is an OSError, that of an unreachable one too; of a name that it does not take a ValueError.
    except (ImportError, OSError, ValueError):
        return None
