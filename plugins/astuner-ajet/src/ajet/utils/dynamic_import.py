"""Importing what a text names."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any


def dynamic_import(module_class_str: str) -> Any:
    """Return what `package.module->Name` or `path/to/file.py->Name` names; raises ImportError."""
    place, _, name = module_class_str.partition("->")
    module = _load_file(Path(place).absolute()) if place.endswith(".py") else importlib.import_module(place)
    if not hasattr(module, name):
        raise ImportError(f"there is no '{name}' in {place}")
    return getattr(module, name)


def cls_to_path(obj_or_path: Any) -> str:
    """Return `package.module->Name` for a class or function; a text as it is."""
    if isinstance(obj_or_path, str):
        return obj_or_path
    return f"{obj_or_path.__module__}->{obj_or_path.__name__}"


def _load_file(path: Path) -> Any:
    if path.stem in sys.modules and getattr(sys.modules[path.stem], "__file__", None) == str(path):
        return sys.modules[path.stem]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ImportError(f"there is no file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
