"""A checkpoint as a model that other tools can load."""

from __future__ import annotations

import json
from pathlib import Path

from astuner.runs.training import export_model
from astuner.settings.config.adapters import ADAPTER_FILE
from astuner_local.trainer.state import FACTS, TENSORS


def export(checkpoint: Path, out: Path, *, merge_lora: bool = False, dtype: str | None = None) -> None:
    """Write the model of a checkpoint to a new directory: without the trainer's state, adapters merged into their base if asked.

    Trained weights are kept in float32. They get `dtype`, or else the precision that they were computed with, which is that of
    the first model unless `model.dtype` says another. Raises what `export_model` raises.
    """
    if dtype is None and not (checkpoint / ADAPTER_FILE).is_file():
        dtype = _read_computed_dtype(checkpoint)
    export_model(checkpoint, out, merge_lora=merge_lora, dtype=dtype, leave_out=(FACTS, TENSORS))


def _read_computed_dtype(checkpoint: Path) -> str | None:
    for facts in (checkpoint / "trainer" / FACTS, checkpoint / FACTS):
        if facts.is_file():
            dtype: str = json.loads(facts.read_text(encoding="utf-8"))["options"]["dtype"]
            return dtype
    return None
