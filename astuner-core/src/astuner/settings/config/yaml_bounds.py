"""Bounds on a YAML text: a few lines of anchors can stand for billions of values, and a thousand brackets for an overflow."""

from __future__ import annotations

from typing import Any

import yaml

DEEPEST = 50
"""Levels of sections and lists, with those that aliases stand for."""

MOST_COPIES = 50_000
"""Values that aliases stand for, in all."""


class BoundedLoader(yaml.SafeLoader):
    """PyYAML's safe loader for texts of any origin; raises `yaml.MarkedYAMLError` for one beyond the bounds."""

    _depth = 0
    _composed = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a node, unless it is too deep."""
        if self._depth > DEEPEST:
            raise yaml.MarkedYAMLError(problem=_TOO_DEEP, problem_mark=self.get_mark())
        self._depth += 1
        self._composed += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def get_single_node(self) -> Any:
        """Return the one document of the text, or None."""
        node = super().get_single_node()
        if node is not None:
            size, _ = self._measure(node, {})
            if size - self._composed > MOST_COPIES:
                problem = f"its aliases stand for more than {MOST_COPIES} values"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        return node

    def _measure(self, node: Any, known: dict[int, tuple[int, int] | None]) -> tuple[int, int]:
        """Return how many values a node stands for, and how deep they are."""
        if isinstance(node, yaml.ScalarNode):
            return 1, 0
        if id(node) not in known:
            # None while it is measured. An alias follows its anchor, so the recursion is no deeper than the text.
            known[id(node)] = None
            inner = [part for item in node.value for part in (item if isinstance(item, tuple) else (item,))]
            measured = [self._measure(part, known) for part in inner]
            depth = 1 + max((depth for _, depth in measured), default=0)
            if depth > DEEPEST:
                raise yaml.MarkedYAMLError(problem=_TOO_DEEP, problem_mark=node.start_mark)
            known[id(node)] = (1 + sum(size for size, _ in measured), depth)
        found = known[id(node)]
        if found is None:
            raise yaml.MarkedYAMLError(problem="an anchor that contains itself", problem_mark=node.start_mark)
        return found


def load_plain_yaml(text: str) -> Any:
    """Return the values of a YAML text, as `yaml.safe_load` does; raises `yaml.YAMLError` beyond the bounds too."""
    loader = BoundedLoader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


_TOO_DEEP = f"it is nested more than {DEEPEST} levels deep"
