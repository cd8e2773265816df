"""Dotted keys in nested mappings."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from astuner.settings.config.trees import Tree, flatten, get, put

NAMES = st.text("abc", min_size=1, max_size=3)
TREES = st.recursive(st.integers(), lambda inner: st.dictionaries(NAMES, inner, max_size=3))


@given(TREES.filter(lambda tree: isinstance(tree, dict)))
def test_every_leaf_is_got_by_its_path(tree: Tree) -> None:
    for path, value in flatten(tree).items():
        assert get(tree, path) == value


@given(TREES.filter(lambda tree: isinstance(tree, dict)), st.lists(NAMES, min_size=1, max_size=4).map(".".join), st.integers())
def test_what_was_put_is_got(tree: Tree, key: str, value: int) -> None:
    put(tree, key, value)
    assert get(tree, key) == value


def test_there_is_nothing_below_a_leaf_or_beside_the_keys() -> None:
    assert get({"a": {"b": 1}}, "a.b.c") is None
    assert get({"a": {"b": 1}}, "a.c") is None
