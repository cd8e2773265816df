"""The structure that CONTRIBUTING promises: no circle of modules or of rooms, small modules, no room for odds and ends."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from statistics import median

import pytest

import astuner

SOURCES = Path(astuner.__file__).parent
LEADERS = frozenset({"planning", "training", "runs", "replays", "driver", "cli"})
OUTSIDE_RUNS = ("config_import",)
"""Rooms of one command each, which nothing imports but the command line."""
FORBIDDEN = {
    "config": LEADERS | {"plugins", "rendering", "gateway", "rollout", "judging", "builtin"},
    "plugins": LEADERS | {"rendering", "gateway", "rollout", "builtin"},
    "planning": LEADERS - {"planning", "runs"} | {"gateway", "builtin"},
    "rendering": LEADERS | {"gateway", "rollout", "judging"},
    "judging": LEADERS | {"rollout", "gateway"},
    "transcript": LEADERS | {"rollout", "gateway"},
    "gateway": LEADERS | {"rollout", "judging"},
    "http_server": LEADERS | {"rollout", "gateway", "judging", "builtin"},
    "rollout": LEADERS,
    "training": LEADERS - {"training", "runs"},
    "inspection": LEADERS - {"runs"} | {"rollout", "gateway", "judging", "builtin"},
    "replays": {"driver", "cli", "gateway"},
    "runs": LEADERS - {"runs"} | {"rollout", "gateway", "judging", "builtin"},
    "clients": LEADERS | {"rollout", "gateway", "judging", "builtin"},
    "tabular": LEADERS | {"rollout", "gateway", "judging", "builtin"},
    "memory": LEADERS | {"plugins", "rendering", "rollout", "gateway", "judging", "builtin"},
    "processes": LEADERS | {"rollout", "gateway", "judging", "builtin"},
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


def room(module: str) -> str:
    """Return the first-level folder or module; `astuner` itself is one too."""
    return module.split(".")[1] if "." in module else module


@cache
def room_graph() -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {room(module): set() for module in modules()}
    for module, names in graph().items():
        found[room(module)] |= {room(name) for name in names} - {room(module)}
    return {name: frozenset(others) for name, others in found.items()}


def reachable(start: str, graph: Mapping[str, frozenset[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for name in graph[waiting.pop()] - seen:
            seen.add(name)
            waiting.append(name)
    return seen


def imports_between(rooms: set[str]) -> list[str]:
    return sorted(
        f"{module} -> {name}"
        for module, names in graph().items()
        for name in names
        if {room(module), room(name)} <= rooms and room(module) != room(name)
    )


def test_no_module_imports_itself_by_way_of_others() -> None:
    circles = sorted(module for module in modules() if module in reachable(module, graph()))
    assert circles == []


def test_no_room_imports_itself_by_way_of_others() -> None:
    """Imports inside functions and imports for types count too."""
    circles = {name for name in room_graph() if name in reachable(name, room_graph())}
    assert imports_between(circles) == []


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


@pytest.mark.parametrize("outside", OUTSIDE_RUNS)
def test_no_run_enters_the_room_of_a_command(outside: str) -> None:
    assert [name for name, others in room_graph().items() if outside in others and name != "cli"] == []


def test_modules_are_small() -> None:
    lines = sorted(len(path.read_text(encoding="utf-8").splitlines()) for path in modules().values())
    assert median(lines) <= 90
    assert lines[-1] <= 400


def test_no_module_is_called_after_nothing() -> None:
    empty = {"utils", "util", "helpers", "common", "misc", "stuff"}
    assert [module for module in modules() if empty & set(module.split("."))] == []
