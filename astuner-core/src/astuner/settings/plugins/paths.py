"""Importing what a configuration names by module or by file."""

from __future__ import annotations

import hashlib
import importlib.util
import shlex
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

from astuner.contract.protocols import Candidate
from astuner.episodes.containment.process_state import MODULE_OF_FILE
from astuner.settings.plugins.kept_sources import KeepingLoader, keep_sources
from astuner.settings.plugins.module_files import MissingName, find_import_root, find_source


def make_entry_point(candidate: Candidate) -> EntryPoint:
    """Return an entry point for a path, after making its module importable; a file is imported here."""
    directory = candidate.config_dir or Path.cwd()
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    keep_sources(str(directory))
    place, _, attribute = candidate.target.rpartition(":")
    if not place.endswith(".py") and isinstance(find_source(place, directory), MissingName):
        root = find_import_root(place, directory)
        if root is not None and str(root) not in sys.path:
            # Last, so that nothing in a directory that was not named hides what is installed.
            sys.path.append(str(root))
    module = import_file(Path(place), directory) if place.endswith(".py") else place
    return EntryPoint(candidate.name, f"{module}:{attribute}", "astuner.paths")


def explain_missing_neighbour(error: BaseException, candidate: Candidate) -> str:
    """Return what to do if a file that was named by its place cannot import a module next to it; empty for other errors."""
    place = candidate.target.rpartition(":")[0]
    if candidate.source != "path" or not place.endswith(".py") or not isinstance(error, ModuleNotFoundError):
        return ""
    folder = Path(place).parent
    module = folder / (error.name or "").partition(".")[0]
    if not module.is_dir() and not module.with_suffix(".py").is_file():
        return ""
    return f". It is in {folder}, but modules are found next to the configuration: export PYTHONPATH={shlex.quote(str(folder))}"


def import_file(file: Path, directory: Path) -> str:
    """Import a file once per process and return the name of its module.

    A file below the configuration's directory gets the name by which the user's own code imports it, so that both see the same
    classes and other processes can unpickle them. Any other file gets a name derived from its path.
    """
    for name, module in list(sys.modules.items()):
        if name != "__main__" and _is_from(module, file):
            return name
    return _find_importable_name(file, directory) or _import_alone(file)


def _find_importable_name(file: Path, directory: Path) -> str | None:
    if not file.is_relative_to(directory):
        return None
    parts = file.relative_to(directory).with_suffix("").parts
    if not all(part.isidentifier() for part in parts) or parts[-1] == "__init__":
        return None
    name = ".".join(parts)
    importlib.invalidate_caches()
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    # Another module may own the name: `./json.py` must not resolve to the standard library's.
    return name if spec is not None and spec.origin is not None and Path(spec.origin).resolve() == file else None


def _import_alone(file: Path) -> str:
    digest = hashlib.sha256(str(file).encode()).hexdigest()[:12]
    name = f"{MODULE_OF_FILE}{digest}_{file.stem if file.stem.isidentifier() else 'module'}"
    spec = importlib.util.spec_from_file_location(name, file, loader=KeepingLoader(name, str(file)))
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return name


def _is_from(module: ModuleType, file: Path) -> bool:
    # `sys.modules` may hold anything, lazy proxies included: read the dict, call nothing.
    origin = module.__dict__.get("__file__") if isinstance(module, ModuleType) else None
    return isinstance(origin, str) and origin.endswith(file.name) and Path(origin).resolve() == file
