"""The `config.json` of a model, read before anything is loaded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from astuner.contract.errors import ConfigError, Problem

KEY = "astuner.model.path"


def read_model_config(model: str) -> Mapping[str, Any]:
    """Return the configuration of a model: of a directory, or of a Hugging Face id, from its cache or by download.

    Raises `ConfigError` if it cannot be read.
    """
    if Path(model).is_dir():
        file = Path(model, "config.json")
        if not file.is_file():
            raise ConfigError([Problem(key=KEY, message=f"{model} is not a model in transformers format: it has no config.json")])
    elif model.count("/") > 1 or model.startswith((".", "/", "~")):
        raise ConfigError([Problem(key=KEY, message=f"there is no directory {model}", kind="missing_path")])
    else:
        file = _fetch_from_hub(model)
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigError([Problem(key=KEY, message=f"{file} is not valid JSON: {error}")]) from error
    return cast("Mapping[str, Any]", found)


def read_saved_dtype(config: Mapping[str, Any]) -> str | None:
    """Return the precision of a checkpoint, as in `float32`; None if it is not recorded."""
    found = config.get("dtype", config.get("torch_dtype"))
    return found.removeprefix("torch.") if isinstance(found, str) else None


def choose_trained_dtype(config: Mapping[str, Any]) -> str:
    """Return the default precision of the backbone `local`: bfloat16 for a checkpoint in half precision."""
    return "bfloat16" if read_saved_dtype(config) in ("bfloat16", "float16") else "float32"


def _fetch_from_hub(model: str) -> Path:
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(model, "config.json"))
    except Exception as error:
        message = f"{model} is neither a directory nor a model that the Hugging Face hub gives: {error}"
        raise ConfigError([Problem(key=KEY, message=message)]) from error
