"""What a backbone or an engine that needs a whole model does with adapters as `model.path`."""

from __future__ import annotations

import shlex
from pathlib import Path

from astuner.contract.errors import ConfigError, Problem
from astuner.settings.config.adapters import read_adapters
from astuner.settings.config.pretrained import check_model_files


def check_whole_model(path: str, needed_by: str) -> None:
    """Raise `ConfigError` for a directory of LoRA adapters, with which `needed_by` cannot begin, and for what is not loaded."""
    check_model_files(path, weights=True)
    adapters = read_adapters(Path(path))
    if adapters is not None:
        message = (
            f"{path} holds LoRA adapters of {adapters.base}, and {needed_by} begins with a whole model. Merge them first "
            f"(`astuner export {shlex.quote(path)} --merge-lora --out DIRECTORY`) and name that directory"
        )
        raise ConfigError([Problem(key="astuner.model.path", message=message)])
