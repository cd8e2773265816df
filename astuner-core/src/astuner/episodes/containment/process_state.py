"""Undoing what a run or a test does to this process's imports and environment."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import MetadataPathFinder
from pathlib import Path
from types import ModuleType

MODULE_OF_FILE = "astuner_file_"
"""How the name of a module begins that was imported from a file by its path."""


@contextmanager
def restore_process_state(directory: Path) -> Iterator[None]:
    """Restore `sys.path` and `os.environ`, and forget the user's modules that were imported meanwhile.

    The user's are those below `directory` or what was added to `sys.path`, and files that a configuration names by their paths:
    the next run reads them again, or others of the same names. An environment below the directory, or a package installed
    from there, stays: libraries cannot be imported twice.
    """
    known, path = set(sys.modules), list(sys.path)
    with restore_path_and_environment():
        try:
            yield
        finally:
            added = [Path(place) for place in sys.path if place not in path]
            forget_modules(directory, *added, keep=known, installed=[Path(place) for place in path])
            for name in [name for name in sys.modules if name.startswith(MODULE_OF_FILE) and name not in known]:
                del sys.modules[name]


@contextmanager
def restore_path_and_environment() -> Iterator[None]:
    """Restore `sys.path` and `os.environ` at the end."""
    path, environment = list(sys.path), dict(os.environ)
    try:
        yield
    finally:
        sys.path[:] = path
        for name in {*environment, *os.environ}:
            if os.environ.get(name) != environment.get(name):
                _set_variable(name, environment.get(name))


def forget_modules(*directories: Path, keep: Collection[str] = (), installed: Sequence[Path] = ()) -> None:
    """Drop the modules below some directories from `sys.modules`, and clear the import system's caches.

    Modules named in `keep` stay, and so do those in `installed` directories deeper than the ones that are named.
    """
    places = _list_beginnings(directories)
    deeper = tuple(place for place in _list_beginnings(installed) if place.startswith(places) and place not in places)

    def is_dropped(origin: str) -> bool:
        return origin.startswith(places) and not origin.startswith(deeper)

    for name, module in list(sys.modules.items()):
        if name not in keep and any(map(is_dropped, _find_origins(module))):
            del sys.modules[name]
    for place in list(sys.path_importer_cache):
        if is_dropped(f"{place}{os.sep}"):
            del sys.path_importer_cache[place]
    refresh_imports()


def refresh_imports() -> None:
    """Let the import system and `importlib.metadata` find files that were just written."""
    importlib.invalidate_caches()
    # Python 3.11 misses this one. On an instance, since there it is not a classmethod.
    MetadataPathFinder().invalidate_caches()


def _list_beginnings(directories: Sequence[Path]) -> tuple[str, ...]:
    return tuple(f"{place}{os.sep}" for directory in directories for place in {directory.absolute(), directory.resolve()})


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
