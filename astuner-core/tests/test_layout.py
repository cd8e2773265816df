"""The structure that CONTRIBUTING promises: no circle of imports, small modules, no room for odds and ends."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from statistics import median

import pytest

import astuner

SOURCES = Path(astuner.__file__).parent
FORBIDDEN = {
    "config": {"plugins", "rendering", "gateway", "rollout", "judging", "training", "runs", "planning", "builtin", "cli"},
    "plugins": {"rendering", "gateway", "rollout", "training", "runs", "planning", "builtin", "cli"},
    "planning": {"gateway", "training", "builtin", "cli"},
    "rendering": {"gateway", "rollout", "judging", "training", "runs", "planning", "cli"},
    "judging": {"rollout", "gateway", "training", "runs", "planning", "cli"},
    "transcript": {"rollout", "gateway", "training", "runs", "planning", "cli"},
    "gateway": {"rollout", "judging", "training", "runs", "planning", "cli"},
    "rollout": {"training", "runs", "planning", "cli"},
    "clients": {"rollout", "gateway", "judging", "training", "runs", "planning", "builtin", "cli"},
    "tabular": {"rollout", "gateway", "judging", "training", "runs", "planning", "builtin", "cli"},
    "processes": {"rollout", "gateway", "judging", "training", "runs", "planning", "builtin", "cli"},
}


@cache
def modules() -> Mapping[str, Path]:
    found = {}
    for path in SOURCES.rglob("*.py"):
        parts = ("astuner", *path.relative_to(SOURCES).with_suffix("").parts)
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def imports(module: str) -> Iterator[str]:
    """Those for types too: a circle of types is one for the reader."""
    for node in ast.walk(ast.parse(modules()[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for name in (f"{node.module}.{alias.name}" for alias in node.names):
                yield name if name in modules() else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@cache
def graph() -> Mapping[str, frozenset[str]]:
    return {module: frozenset(name for name in imports(module) if name in modules() and name != module) for module in modules()}


def reachable(start: str) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for name in graph()[waiting.pop()] - seen:
            seen.add(name)
            waiting.append(name)
    return seen


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else module


def test_no_module_imports_itself_by_way_of_others() -> None:
    circles = sorted(module for module in modules() if module in reachable(module))
    assert circles == []


@pytest.mark.parametrize("lower", FORBIDDEN)
def test_arrows_point_one_way(lower: str) -> None:
    wrong = [
        f"{module} -> {name}"
        for module, names in graph().items()
        if room(module) == lower
        for name in names
        if room(name) in FORBIDDEN[lower]
    ]
    assert wrong == []


def test_modules_are_small() -> None:
    lines = sorted(len(path.read_text(encoding="utf-8").splitlines()) for path in modules().values())
    assert median(lines) <= 90
    assert lines[-1] <= 400


def test_no_module_is_called_after_nothing() -> None:
    empty = {"utils", "util", "helpers", "common", "misc", "stuff"}
    assert [module for module in modules() if empty & set(module.split("."))] == []
