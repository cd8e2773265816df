"""Undoing what tested code does to this process's imports and environment."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import MetadataPathFinder
from pathlib import Path
from types import ModuleType


@contextmanager
def undo_after(*directories: Path) -> Iterator[None]:
    """Restore `sys.path` and `os.environ` at the end, and forget every module below `directories`."""
    path, environment = list(sys.path), dict(os.environ)
    try:
        yield
    finally:
        sys.path[:] = path
        for name in {*environment, *os.environ}:
            if os.environ.get(name) != environment.get(name):
                _set_variable(name, environment.get(name))
        forget_modules(*directories)


def forget_modules(*directories: Path) -> None:
    """Drop the modules below some directories from `sys.modules`, and clear the import system's caches."""
    places = tuple(f"{place}{os.sep}" for directory in directories for place in {directory.absolute(), directory.resolve()})
    for name, module in list(sys.modules.items()):
        if any(origin.startswith(places) for origin in _find_origins(module)):
            del sys.modules[name]
    for place in list(sys.path_importer_cache):
        if f"{place}{os.sep}".startswith(places):
            del sys.path_importer_cache[place]
    refresh_imports()


def refresh_imports() -> None:
    """Let the import system and `importlib.metadata` find files that were just written."""
    importlib.invalidate_caches()
    # Python 3.11 misses this one. On an instance, since there it is not a classmethod.
    MetadataPathFinder().invalidate_caches()


def _set_variable(name: str, value: str | None) -> None:
    if value is None:
        del os.environ[name]
    else:
        os.environ[name] = value


def _find_origins(module: ModuleType) -> list[str]:
    """Return the location of a module's code; read from its dict, since attribute access would load a lazy module."""
    facts = vars(module) if isinstance(module, ModuleType) else {}
    file, path = facts.get("__file__"), facts.get("__path__", ())
    # A namespace package has no file, and directories in its path.
    return [file] if isinstance(file, str) else [f"{place}{os.sep}" for place in path]
