"""Comparing symbolic answers with math-verify, in a child process that is killed when it takes too long."""

from __future__ import annotations

import threading
from importlib.util import find_spec
from pathlib import Path

from astuner.shared.processes import JsonChild, JsonProgram


def is_available() -> bool:
    """Whether math-verify is installed; it is not imported."""
    return find_spec("math_verify") is not None


_MOST_GOLDS = 4096


class SymbolicComparer:
    """Asks math-verify whether two expressions are equal. Thread-safe; one child at a time, started when first needed.

    An expression such as 9^(9^(9^9)) cannot be interrupted inside a process, so the process is killed and replaced.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        path = Path(__file__).with_name("symbolic_child.py")
        self._guard = threading.Lock()
        self._golds: dict[str, object] = {}
        self._child = JsonChild(JsonProgram(path=path, name="math-verify", arguments=(str(timeout_s),)))

    def are_equal(self, gold: str, answer: str) -> bool:
        """Return whether they are equal; an answer that math-verify cannot compare with a gold one that it can take is not.

        Raises `TimeoutError` if reading the gold one takes too long, `RuntimeError` if math-verify cannot.
        """
        self._check_gold(gold)
        try:
            return bool(self._ask(gold, answer))
        except (TimeoutError, RuntimeError):
            # An answer that no one can compare must not be worth more than a wrong one.
            return False

    def _check_gold(self, gold: str) -> None:
        with self._guard:
            failure = self._golds.get(gold, self)
        if failure is self:
            failure = None
            try:
                # Not with itself: equal texts are not evaluated.
                self._ask(gold, "1")
            except (TimeoutError, RuntimeError) as error:
                failure = error
            with self._guard:
                while len(self._golds) >= _MOST_GOLDS:
                    self._golds.pop(next(iter(self._golds)))
                self._golds[gold] = failure
        if isinstance(failure, Exception):
            raise type(failure)(f"the right answer {gold[:80]!r} cannot be compared: {failure}")

    def _ask(self, gold: str, answer: str) -> object:
        found = self._child.ask({"gold": gold, "answer": answer}, self._timeout_s)
        if "error" in found:
            raise RuntimeError(f"math-verify failed: {found['error']}")
        return found["equal"]

    def close(self) -> None:
        """End the child."""
        self._child.close()
