"""The names of a file or module, read from its source: reporting a misspelt name does not run the user's code."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

from astuner.settings.config.paths import find_similar_path
from astuner.settings.config.structure_errors import find_closest
from astuner.settings.plugins.module_files import MissingName, find_import_root, find_source, walk_statements
from astuner.settings.plugins.specs import NoSuchFile, find_file


def find_missing_name(spec: str, config_dir: Path) -> MissingName | None:
    """Find the missing part of a component or workflow named by its place; None also if only importing can show it."""
    arrow = "->" if "->" in spec else ":"
    place, _, attribute = (part.strip() for part in spec.rpartition(arrow))
    if place.endswith(".py"):
        try:
            file = find_file(place, config_dir)
        except NoSuchFile as error:
            similar = find_similar_path(place, config_dir)
            suggestion = similar and f"{similar}{arrow}{attribute}"
            return MissingName(message=str(error), suggestion=suggestion, kind="missing_path")
        except ValueError as error:
            return MissingName(message=str(error))
        if not attribute:
            return MissingName(message=f"which class of the file? Write `{place}{arrow}ClassName`")
    elif not all(part.isidentifier() for part in place.split(".")):
        return None
    else:
        importlib.invalidate_caches()
        found = find_source(place, config_dir)
        if isinstance(found, MissingName) and (root := find_import_root(place, config_dir)) is not None:
            found = find_source(place, root)
        if isinstance(found, MissingName):
            known = find_closest(place, (path.stem for path in config_dir.glob("*.py")))
            return MissingName(message=found.message, suggestion=known and f"{known}{arrow}{attribute}")
        if found is None:
            return None
        file = found
    try:
        names = _list_names(file)
    except OSError as error:
        return MissingName(message=f"{file} cannot be read: {error.strerror}")
    except SyntaxError as error:
        return MissingName(message=f"{file}{f':{error.lineno}' if error.lineno else ''} is not valid Python: {error.msg}")
    except (ValueError, MemoryError, RecursionError) as error:
        return MissingName(message=f"{file} is not valid Python: {str(error) or 'it is nested too deeply'}")
    name = attribute.partition(".")[0]
    if names is None or name in names:
        return None
    similar = find_closest(name, names)
    return MissingName(message=f"there is no '{name}' in {file}", suggestion=similar and f"{place}{arrow}{similar}")


def _list_names(file: Path) -> set[str] | None:
    """Return the top-level names of a file; None if they depend on running it."""
    tree = ast.parse(file.read_bytes(), str(file))
    names: set[str] = set()
    for node in walk_statements(tree.body):
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
