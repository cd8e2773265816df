"""A checkpoint as a model that other tools can load."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from astuner.errors import UsageError
from astuner_local.trainer.model_io import ADAPTER, load_model
from astuner_local.trainer.state import FACTS, TENSORS


def export(checkpoint: Path, out: Path, *, merge_lora: bool = False, dtype: str | None = None) -> None:
    """Write the model of a checkpoint to a new directory: without the trainer's state, adapters merged into their base if asked.

    Weights keep their precision, or get `dtype`. Raises UsageError if there is nothing to export, or `out` is in use.
    """
    adapted = (checkpoint / ADAPTER).is_file()
    if not adapted and not (checkpoint / "config.json").is_file():
        raise UsageError(f"{checkpoint}: no {ADAPTER} and no config.json, so there is no model to export")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out}: exists and is not an empty directory; name another one")
    if adapted and not merge_lora and dtype is not None:
        raise UsageError("--dtype needs --merge-lora here: an adapter without its base keeps its own precision")
    out.mkdir(parents=True, exist_ok=True)
    whole = merge_lora or not adapted
    if whole and (adapted or dtype is not None):
        _write(checkpoint, out, adapted, dtype)
    for file in sorted(checkpoint.iterdir()):
        left_out = file.name in (FACTS, TENSORS) or (whole and _belongs_to_adapter(file))
        if file.is_file() and not left_out and not (out / file.name).exists():
            shutil.copy2(file, out / file.name)


def _write(checkpoint: Path, out: Path, adapted: bool, dtype: str | None) -> None:
    model: Any
    if adapted:
        # float32: merging in half precision would round the adapter's update away.
        model = load_model(checkpoint, "float32").merge_and_unload()
    else:
        model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype="auto")
    if dtype is not None:
        model = model.to(getattr(torch, dtype))
    model.save_pretrained(out)


def _belongs_to_adapter(file: Path) -> bool:
    return file.name.startswith("adapter_") or file.name == "README.md"
