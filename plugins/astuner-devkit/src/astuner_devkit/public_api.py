"""The modules of core that a plugin may import, and finding imports of others. `docs/api.md` is the list for people."""

from __future__ import annotations

import ast
import difflib
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from attrs import frozen

import astuner

CORE = Path(astuner.__file__).parent
LIST = Path(__file__).with_name("public_modules.toml")


@frozen(kw_only=True)
class InternalImport:
    """An import of core's internals."""

    file: Path
    line: int
    name: str
    """The module, or `module.name` of a private name in a public module."""

    def describe(self, below: Path | None = None) -> str:
        """Return place, module and remedy in one line; the file relative to a directory."""
        file = self.file.relative_to(below) if below is not None else self.file
        close = difflib.get_close_matches(self.name, [*public_modules()], n=1, cutoff=0.75)
        hint = f"did you mean {close[0]}? " if close else ""
        return f"{file}:{self.line}: imports {self.name}, which is internal; {hint}docs/api.md lists what a plugin may import"


@cache
def public_modules() -> Mapping[str, str]:
    """Return the stability of each public module."""
    found: dict[str, str] = tomllib.loads(LIST.read_text(encoding="utf-8"))
    return found


def is_public(module: str) -> bool:
    """Whether a plugin may import a module of core."""
    return module in public_modules() and not any(map(_is_private, module.split(".")))


def internal_imports(files: Iterable[Path]) -> list[InternalImport]:
    """Return the imports of internal modules and private names in source files, in the order of files and lines."""
    found = []
    for file in files:
        for line, name in _imports(ast.parse(file.read_bytes(), str(file))):
            if not is_public(name):
                found.append(InternalImport(file=file, line=line, name=name))
    return found


def _imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the imports from core: modules, and `module.name` for a private name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if _is_core(alias.name))
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module and _is_core(node.module):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield node.lineno, whole if _is_private(alias.name) or _is_module(whole) else node.module


def _is_core(module: str) -> bool:
    return module.partition(".")[0] == "astuner"


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _is_module(name: str) -> bool:
    place = CORE.joinpath(*name.split(".")[1:])
    return place.is_dir() or place.with_suffix(".py").is_file()
