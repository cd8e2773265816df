"""A checkpoint as a model that other tools load, for backbones whose checkpoints are Hugging Face models or peft adapters."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

from astuner.errors import UsageError

ADAPTER = "adapter_config.json"
"""A checkpoint with this file holds adapters, and names the model that they belong to."""


def export_model(checkpoint: Path, out: Path, *, merge_lora: bool = False, leave_out: Collection[str] = ()) -> None:
    """Copy the files of a checkpoint's model, except folders and `leave_out`; merge adapters if asked.

    Raises `UsageError` when there is nothing to export, or `out` is in use.
    """
    adapted = (checkpoint / ADAPTER).is_file()
    if not adapted and not (checkpoint / "config.json").is_file():
        raise UsageError(f"{checkpoint}: no {ADAPTER} and no config.json, so there is no model to export")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out}: exists and is not an empty directory; name another one")
    out.mkdir(parents=True, exist_ok=True)
    merged = adapted and merge_lora
    if merged:
        _merge(checkpoint, out)
    for file in sorted(checkpoint.iterdir()):
        skipped = file.name in leave_out or (merged and file.name.startswith("adapter_")) or (out / file.name).exists()
        if file.is_file() and not skipped:
            shutil.copy2(file, out / file.name)


def _merge(checkpoint: Path, out: Path) -> None:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    base = json.loads((checkpoint / ADAPTER).read_text(encoding="utf-8"))["base_model_name_or_path"]
    # float32: merging in half precision would round the adapters' update away.
    model: Any = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    PeftModel.from_pretrained(model, str(checkpoint)).merge_and_unload().save_pretrained(out)
