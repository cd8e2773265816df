"""The source file of a module, found and read without importing it or its parent packages."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Literal, NamedTuple


class MissingName(NamedTuple):
    """The missing part of `module:Class`. A tuple, since `astuner --help` starts without attrs."""

    message: str
    suggestion: str | None = None
    """The whole spec that was probably meant, in the form in which it was written."""
    kind: Literal["missing_path"] | None = None


def find_source(module: str, config_dir: Path | None) -> Path | MissingName | None:
    """Return the source file of a module, without importing its parent packages; None if that cannot be determined.

    Modules in `config_dir` shadow installed ones.
    """
    path: Sequence[str] | None = None
    above: ModuleSpec | None = None
    parts = module.split(".")
    for depth in range(1, len(parts) + 1):
        name = ".".join(parts[:depth])
        try:
            found = _find_spec(name, path, config_dir)
        except ImportError as error:
            # A module of an earlier state: the message has its present name.
            return MissingName(message=str(error))
        if found is None:
            is_folder = above is not None and above.origin is None
            if path and not is_folder and not (config_dir and any(Path(part).is_relative_to(config_dir) for part in path)):
                # A third party's package may find its modules in its own way; one without `__init__.py` does not.
                return None
            place = f"in {config_dir} or " if config_dir else ""
            return MissingName(message=f"there is no module '{name}' {place}among the installed packages")
        if depth == 1 and (hidden := _find_hidden_folder(found)) is not None:
            return hidden
        above, path = found, _list_directories(found)
        if path is None and depth < len(parts):
            if config_dir and found.origin and Path(found.origin).is_relative_to(config_dir):
                return MissingName(message=f"there is no module '{module}': '{name}' ({found.origin}) is not a package")
            # A module may have others below it, as `os` does.
            return None
    if found is not None and found.origin is None and path:
        return MissingName(message=f"'{module}' is a folder without __init__.py ({path[0]}), which has no names of its own")
    return Path(found.origin) if found is not None and found.origin and found.origin.endswith(".py") else None


def find_import_root(module: str, config_dir: Path) -> Path | None:
    """Return the directory from which `tutorial.example_x.agents` is named, for a YAML inside of the folder `tutorial`.

    For a YAML elsewhere it may be the working directory, if the name has several parts.
    """
    first, *rest = parts = module.split(".")
    above = [directory for directory in config_dir.parents if config_dir.is_relative_to(directory / first)]
    for directory in (*above, *([Path.cwd()] if rest else [])):
        place = directory.joinpath(*parts)
        if any(file.is_file() for file in (place.with_name(f"{place.name}.py"), place / "__init__.py")):
            return directory
    return None


def _find_spec(name: str, path: Sequence[str] | None, config_dir: Path | None) -> ModuleSpec | None:
    first = ([str(config_dir)], None) if config_dir else (None,)
    for finder in sys.meta_path:
        # The directory of the configuration comes first, as when the module is imported.
        for directories in first if path is None else (path,):
            try:
                found = finder.find_spec(name, directories)
            except KeyError:
                # A folder without `__init__.py` looks its parent up among the imported modules.
                found = _describe_folder(name, directories or ())
            if found is not None:
                return found
    return None


def _describe_folder(name: str, directories: Sequence[str]) -> ModuleSpec | None:
    """Return the spec of a folder without `__init__.py`, which may be in several directories."""
    portions = [str(folder) for directory in directories if (folder := Path(directory, name.rpartition(".")[2])).is_dir()]
    if not portions:
        return None
    spec = ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = portions
    return spec


def _list_directories(spec: ModuleSpec) -> Sequence[str] | None:
    return None if spec.submodule_search_locations is None else list(spec.submodule_search_locations)


def _find_hidden_folder(spec: ModuleSpec) -> MissingName | None:
    """Describe a folder without `__init__.py` that Python passes over, because a whole package has the same name."""
    if spec.origin is not None:
        return None
    package = PathFinder.find_spec(spec.name, None)
    directories = _list_directories(spec)
    if package is None or package.origin is None or not directories:
        return None
    return MissingName(
        message=f"the folder {directories[0]} has no __init__.py, so Python takes {package.origin} for '{spec.name}'. "
        "Add an empty __init__.py to the folder, or rename it"
    )


def walk_statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run when a file is imported, those inside `if`, `try`, `with` and loops too."""
    for node in body:
        yield node
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for field in ("body", "orelse", "finalbody"):
            yield from walk_statements(getattr(node, field, ()))
        for handler in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            yield from walk_statements(handler.body)
