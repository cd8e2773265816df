"""Functions say what they do: none is named by a participle or a gerund, in core and, in a checkout, in the plugins."""

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
VERBS = frozenset({"bring", "embed", "ping"})
NOUNS = frozenset({"ring", "setting", "spelling", "string", "tracing", "warning"})
ALLOWED = {
    "coding_rate": "a measure, like `accuracy`",
    "hidden": "the hidden states of a transformer",
    "installed": "read together with its module: `installed.installed()`",
    "sampling": "how to sample, a `Sampling`; backbones of others implement it",
}


def is_participle(word: str) -> bool:
    regular = word.endswith("ed") and not word.endswith("eed") and word not in VERBS
    return regular or IRREGULAR.fullmatch(word) is not None


def is_gerund(word: str) -> bool:
    return word.endswith("ing") and word not in VERBS | NOUNS


def is_riddle(name: str) -> bool:
    """Whether it is a participle, alone or with a preposition, or begins with a gerund: `told`, `chosen_by`, `opening_files`."""
    first, *others = name.strip("_").split("_")
    is_unclear = is_gerund(first) or (is_participle(first) and set(others) <= PREPOSITIONS)
    return is_unclear and name not in ALLOWED


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
def test_no_function_is_named_by_a_participle_or_a_gerund(source: Path) -> None:
    assert list(find_riddles(source)) == []


@pytest.mark.parametrize("name", ["_told", "kept", "chosen_by", "opening", "_reading_rows"])
def test_a_riddle_is_found(name: str) -> None:
    assert is_riddle(name)


@pytest.mark.parametrize(
    "name", ["is_kept", "embed", "feed", "list_saved", "hidden", "open_rows", "ping", "warning_of", "sampling"]
)
def test_a_verb_or_a_noun_is_no_riddle(name: str) -> None:
    assert not is_riddle(name)
