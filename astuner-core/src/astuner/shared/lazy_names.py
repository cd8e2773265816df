"""Names of a package that are imported on their first use: who imports one module of it does not import all."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


def import_on_use(package: str, file: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package, for the names that its `file` imports from its modules for type checkers alone."""

    @cache
    def read_homes() -> dict[str, str]:
        tree = ast.walk(ast.parse(Path(file).read_text(encoding="utf-8")))
        imports = (node for node in tree if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{package}."))
        return {alias.name: node.module or "" for node in imports for alias in node.names}

    def find(name: str) -> Any:
        if name.startswith("__") or name not in read_homes():
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = getattr(import_module(read_homes()[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
