"""Undoing what tested code does to this process's imports and environment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from astuner.episodes.containment.process_state import forget_modules, refresh_imports, restore_path_and_environment

__all__ = ["forget_modules", "refresh_imports", "undo_after"]


@contextmanager
def undo_after(*directories: Path) -> Iterator[None]:
    """Restore `sys.path` and `os.environ` at the end, and forget every module below `directories`."""
    try:
        with restore_path_and_environment():
            yield
    finally:
        forget_modules(*directories)
