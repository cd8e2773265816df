"""Changing modules as they are imported. Imports nothing but the standard library."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

PATCHED = {
    "torch": "of_torch",
    "verl.utils.device": "of_device",
    "verl.utils.distributed": "of_distributed",
    "verl.workers.engine.fsdp.transformer_impl": "of_engine",
    "trinity.common.models.vllm_worker": "of_vllm_worker",
    "trinity.common.models.vllm_extension": "of_weight_transfer",
}
"""Module -> function of `astuner_trinity_cpu.patches`."""


def install() -> None:
    """Watch imports from now on."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in PATCHED:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                _then(spec.loader, PATCHED[name])
                return spec
        return None


def _then(loader: Any, patch: str) -> None:
    load: Callable[[ModuleType], None] = loader.exec_module

    def loaded(module: ModuleType) -> None:
        load(module)
        getattr(importlib.import_module("astuner_trinity_cpu.patches"), patch)(module)

    loader.exec_module = loaded
