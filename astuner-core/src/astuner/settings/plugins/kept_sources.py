"""Imports users' modules so that it is known what was loaded: their files may be replaced while a run lasts."""

from __future__ import annotations

import sys
from importlib import machinery
from types import CodeType, ModuleType


class KeepingLoader(machinery.SourceFileLoader):
    """Compiles the text that it has read, and keeps it."""

    source: bytes | None = None

    def get_code(self, fullname: str) -> CodeType:
        """Read and compile the file, without a file of an earlier compilation."""
        self.source = self.get_data(self.path)
        return self.source_to_code(self.source, self.path)

    def exec_module(self, module: ModuleType) -> None:
        """Run a module; those of a package are kept too."""
        for directory in module.__dict__.get("__path__", ()):
            keep_sources(directory)
        super().exec_module(module)


def keep_sources(directory: str) -> None:
    """Keep the text of the modules that are imported from a directory from now on."""
    sys.path_importer_cache[directory] = machinery.FileFinder(
        directory,
        (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
        (KeepingLoader, machinery.SOURCE_SUFFIXES),
        (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES),
    )
