"""Count the modules of core that a `debug` run of one task imports, and show what imports each first.

python benchmarks/imported_modules.py [--tree]
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

CORE = "astuner"


class Importers:
    """Records who imports each module of core first; finds none itself."""

    def __init__(self) -> None:
        """Start with none."""
        self.of: dict[str, str] = {}

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Take down the innermost module of core under way."""
        if name.partition(".")[0] == CORE:
            frame: FrameType | None = sys._getframe()
            while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] != CORE:
                frame = frame.f_back
            self.of.setdefault(name, "" if frame is None else frame.f_globals["__name__"])


def run_one_task(directory: Path) -> dict[str, str]:
    """Run, and return the modules of core that were imported, each with the module that imported it first."""
    importers = Importers()
    sys.meta_path.insert(0, importers)  # type: ignore[arg-type]  # it only looks
    import astuner
    from astuner_devkit.project import write_project

    conf = write_project(directory, "astuner_devkit.judges:ExactAnswer")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        astuner.run(conf)
    # The tests' own judge and workflow are not a part of it.
    modules = sorted(name for name in sys.modules if name.partition(".")[0] == CORE and not name.startswith("astuner_devkit"))
    return {name: importers.of.get(name, "") for name in modules}


def print_tree(importers: Mapping[str, str], importer: str, depth: int) -> None:
    """Print what a module imported first, and what that imported."""
    for name in [name for name, first in importers.items() if first == importer]:
        print(f"{'  ' * depth}{name}")
        print_tree(importers, name, depth + 1)


def main() -> None:
    """Print the count, and the tree where it is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tree", action="store_true", help="also print the modules, each below the one that imported it first")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        importers = run_one_task(Path(directory))
        os.chdir("/")
    print(f"{len(importers)} modules of core")
    if options.tree:
        for root in sorted({first for first in importers.values() if first not in importers}):
            print(root or "(dynamically)")
            print_tree(importers, root, 1)


if __name__ == "__main__":
    main()
