"""Functions say what they do: none is named by a participle alone, in core and, in a checkout, in the plugins."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import astuner

PACKAGE = Path(astuner.__file__).parent
CHECKOUT = Path(__file__).parents[2]
SOURCES = [PACKAGE, *sorted(CHECKOUT.glob("plugins/*/src/*")), *sorted(CHECKOUT.glob("tutorial/plugins/*/src/*"))]
IRREGULAR = re.compile(
    "begun|bound|bought|broken|brought|built|caught|chosen|dealt|done|drawn|driven|fallen|felt|"
    "forgotten|fought|found|frozen|given|gone|grown|heard|held|hidden|kept|known|laid|led|left|"
    "lost|made|meant|met|paid|said|seen|sent|shown|sold|spent|spoken|stood|struck|swept|taken|"
    "taught|thought|thrown|told|torn|understood|undone|won|worn|written"
)
PREPOSITIONS = frozenset({"as", "at", "by", "for", "from", "in", "of", "on", "to", "with"})
VERBS = frozenset({"embed"})
ALLOWED = {
    "hidden": "the hidden states of a transformer",
    "installed": "read together with its module: `installed.installed()`",
}


def is_participle(word: str) -> bool:
    regular = word.endswith("ed") and not word.endswith("eed") and word not in VERBS
    return regular or IRREGULAR.fullmatch(word) is not None


def is_riddle(name: str) -> bool:
    """Whether a name is a participle, or a participle and a preposition: `told`, `chosen_by`."""
    first, *others = name.strip("_").split("_")
    return is_participle(first) and set(others) <= PREPOSITIONS and name not in ALLOWED


def is_noun(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it is read like data: properties and fixtures are named for what they give."""
    decorators = " ".join(map(ast.unparse, function.decorator_list))
    return "property" in decorators or "fixture" in decorators


def find_riddles(source: Path) -> Iterator[str]:
    for path in sorted(source.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_riddle(node.name) and not is_noun(node):
                yield f"{path.relative_to(source.parent)}:{node.lineno}: {node.name}"


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_no_function_is_named_by_a_participle(source: Path) -> None:
    assert list(find_riddles(source)) == []


@pytest.mark.parametrize("name", ["_told", "kept", "chosen_by", "is_kept", "embed", "feed", "list_saved", "hidden"])
def test_only_a_bare_participle_is_a_riddle(name: str) -> None:
    assert is_riddle(name) == (name in ("_told", "kept", "chosen_by"))
