"""What a file or module defines, read from its source: nothing of the user's is run for a misspelt name."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path

from attrs import frozen

from astuner.config.similar_paths import similar_path
from astuner.config.structure_errors import closest


@frozen(kw_only=True)
class Missing:
    """What is not there of `module:Class`."""

    message: str
    suggestion: str | None = None
    """The whole of what was probably meant, in the form in which it was written."""


def missing_in_source(spec: str, config_dir: Path) -> Missing | None:
    """Say what does not exist of a component or workflow that is named by its place; None also where only importing can tell."""
    arrow = "->" if "->" in spec else ":"
    place, _, attribute = (part.strip() for part in spec.rpartition(arrow))
    if place.endswith(".py"):
        file = (config_dir / Path(place).expanduser()).resolve()
        if not file.is_file():
            similar = similar_path(place, config_dir)
            return Missing(message=f"there is no file {file}", suggestion=similar and f"{similar}{arrow}{attribute}")
    else:
        importlib.invalidate_caches()
        found = find_source(place, config_dir)
        if isinstance(found, Missing):
            known = closest(place, _modules_of(config_dir))
            return Missing(message=found.message, suggestion=known and f"{known}{arrow}{attribute}")
        if found is None:
            return None
        file = found
    try:
        names = _names(file)
    except SyntaxError as error:
        return Missing(message=f"{file}:{error.lineno} is not Python: {error.msg}")
    name = attribute.partition(".")[0]
    if names is None or name in names:
        return None
    similar = closest(name, names)
    return Missing(message=f"there is no '{name}' in {file}", suggestion=similar and f"{place}{arrow}{similar}")


def find_source(module: str, config_dir: Path | None) -> Path | Missing | None:
    """Return where the source of a module lies, without importing the packages above it; None where that cannot be told.

    What lies in `config_dir` hides what is installed.
    """
    path: Sequence[str] | None = None
    parts = module.split(".")
    for depth in range(1, len(parts) + 1):
        name = ".".join(parts[:depth])
        found = _find(name, path, config_dir)
        if found is None:
            if path and not (config_dir and any(Path(directory).is_relative_to(config_dir) for directory in path)):
                # A package of somebody else may look for its modules where only it knows.
                return None
            place = f"in {config_dir} or " if config_dir else ""
            return Missing(message=f"there is no module '{name}' {place}among the installed packages")
        path = list(found.submodule_search_locations) if found.submodule_search_locations is not None else None
        if path is None and depth < len(parts):
            # As `os` does, a module may have others below it.
            return None
    return Path(found.origin) if found is not None and found.origin and found.origin.endswith(".py") else None


def _find(name: str, path: Sequence[str] | None, config_dir: Path | None) -> ModuleSpec | None:
    first = ([str(config_dir)], None) if config_dir else (None,)
    for finder in sys.meta_path:
        # The directory of the configuration is in front of everything else, as it is when the module is imported.
        for directories in first if path is None else (path,):
            found = finder.find_spec(name, directories)
            if found is not None:
                return found
    return None


def _modules_of(directory: Path) -> list[str]:
    return [path.stem for path in directory.glob("*.py")]


def _names(file: Path) -> set[str] | None:
    """Return the names at the top of a file; None where they depend on what happens when it runs."""
    tree = ast.parse(file.read_bytes(), str(file))
    names: set[str] = set()
    for node in top_statements(tree.body):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if name == "__getattr__":
                    return None
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                if any(alias.name == "*" for alias in aliases):
                    return None
                names |= {alias.asname or alias.name.partition(".")[0] for alias in aliases}
            case _:
                for part in ast.walk(node):
                    match part:
                        case ast.Name(id=("globals" | "exec" | "vars" | "setattr")):
                            return None
                        case ast.Name(id=name, ctx=ast.Store()):
                            names.add(name)
    return names


def top_statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run when a file is imported, those inside `if`, `try`, `with` and loops too."""
    for node in body:
        yield node
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for field in ("body", "orelse", "finalbody"):
            yield from top_statements(getattr(node, field, ()))
        for handler in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
            yield from top_statements(handler.body)
