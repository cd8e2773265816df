"""Changing modules as they are imported, and putting one in another's place. Imports nothing but the standard library."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

PATCHED = {
    "torch": "of_torch",
    "verl.utils.device": "of_device",
    "verl.utils.distributed": "of_distributed",
    "verl.workers.engine.fsdp.transformer_impl": "of_engine",
}
"""Module -> function of `astuner_trinity_cpu.patches`."""
REPLACED = {"trinity.common.models.vllm_model": "astuner_trinity_cpu.engine"}


def install() -> None:
    """Watch imports from now on."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name in REPLACED:
            return ModuleSpec(name, _Stand(REPLACED[name]))
        if name not in PATCHED:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                _then(spec.loader, PATCHED[name])
                return spec
        return None


class _Stand(Loader):
    """Loads another module under a name."""

    def __init__(self, other: str) -> None:
        self._other = other

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return importlib.import_module(self._other)

    def exec_module(self, module: ModuleType) -> None:
        """It is loaded."""


def _then(loader: Any, patch: str) -> None:
    load: Callable[[ModuleType], None] = loader.exec_module

    def loaded(module: ModuleType) -> None:
        load(module)
        getattr(importlib.import_module("astuner_trinity_cpu.patches"), patch)(module)

    loader.exec_module = loaded
