"""Comparing symbolic answers with math-verify, in child processes that are ended when they take too long."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from attrs import define, frozen

from astuner_judges.json_child import JsonChild, JsonProgram
from astuner_judges.magnitude import is_too_large


def is_available() -> bool:
    """Whether math-verify is installed; it is not imported."""
    return find_spec("math_verify") is not None


_MOST_KEPT = 8192
"""Pairs whose outcome is remembered, and right answers whose failures are."""
_MOST_CHILDREN = 4
_MOST_FAILURES = 16
"""Answers to one question that may take too long, before none is compared for `_PAUSE_S`."""
_PAUSE_S = 60.0


@frozen
class Pair:
    """Two expressions to be compared."""

    gold: str
    answer: str
    places: int = 6
    """Decimal places in which a decimal and another number have to agree."""


class SymbolicComparer:
    """Asks math-verify whether two expressions are equal. Thread-safe; children start when they are needed.

    An expression that sympy cannot decide cannot be interrupted inside a process, so its worker is ended when it has used
    `timeout_s` of CPU time. Each pair is compared once. The more answers to one right answer take too long, the less time the
    next one has, so that all siblings of a group together cost at most about 1.3 times `timeout_s`.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._guard = threading.Lock()
        self._outcomes: OrderedDict[Pair, Future[bool]] = OrderedDict()
        self._failures: OrderedDict[str, _Failures] = OrderedDict()
        self._children = _Children()

    def are_equal(self, gold: str, answer: str, places: int = 6) -> bool:
        """Return whether they are equal; an answer that math-verify cannot compare with a gold one that it can take is not.

        Raises `TimeoutError` if reading the gold one takes too long, `RuntimeError` if math-verify cannot.
        """
        try:
            # Not with itself: equal texts are not evaluated.
            self._find(Pair(gold, "1"))
        except (TimeoutError, RuntimeError) as error:
            raise type(error)(f"the right answer {gold[:80]!r} cannot be compared: {error}") from None
        try:
            return self._find(Pair(gold, answer, places))
        except (TimeoutError, RuntimeError):
            # An answer that no one can compare must not be worth more than a wrong one.
            return False

    def close(self) -> None:
        """End the children."""
        self._children.close()

    def _find(self, pair: Pair) -> bool:
        """Return the outcome of a pair, which the first caller computes; raises as `_ask` does."""
        with self._guard:
            outcome = self._outcomes.get(pair)
            is_first = outcome is None
            if outcome is None:
                outcome = self._outcomes[pair] = Future()
                if len(self._outcomes) > _MOST_KEPT:
                    self._outcomes.popitem(last=False)
            else:
                self._outcomes.move_to_end(pair)
        if is_first:
            try:
                outcome.set_result(self._ask(pair))
            except BaseException as error:  # noqa: BLE001 - raised to every caller below
                outcome.set_exception(error)
        return outcome.result()

    def _ask(self, pair: Pair) -> bool:
        if is_too_large(pair.gold) or is_too_large(pair.answer):
            raise RuntimeError("it is too large to be computed")
        cpu_s = self._reserve(pair)
        question = {"gold": pair.gold, "answer": pair.answer, "places": pair.places, "cpu_s": cpu_s}
        # A busy machine gives a process less than all of its time.
        found = self._children.ask(question, 10 * cpu_s + 20)
        if "late" in found:
            raise TimeoutError(f"math-verify gave no answer in {cpu_s:g} s")
        with self._guard:
            if failures := self._failures.get(pair.gold):
                failures.count -= 1
        if "error" in found:
            raise RuntimeError(f"math-verify failed: {found['error']}")
        return bool(found["equal"])

    def _reserve(self, pair: Pair) -> float:
        """Return the CPU time for a pair, and count it as one that fails until it has not."""
        with self._guard:
            failures = self._failures.setdefault(pair.gold, _Failures())
            self._failures.move_to_end(pair.gold)
            if len(self._failures) > _MOST_KEPT:
                self._failures.popitem(last=False)
            if time.monotonic() - failures.last > _PAUSE_S:
                failures.count = 0
            if failures.count >= _MOST_FAILURES + _MOST_CHILDREN:
                raise TimeoutError("too many answers to this question took too long")
            failures.last = time.monotonic()
            failures.count += 1
            return self._timeout_s if failures.count <= 1 else self._timeout_s / (2 * failures.count**2)


@define
class _Failures:
    """How many answers to a question took too long, or are being compared, and when the last one began."""

    count: int = 0
    last: float = 0.0


class _Children:
    """A few processes that compare; a caller waits for one that is idle."""

    def __init__(self) -> None:
        path = Path(__file__).with_name("symbolic_child.py")
        most = max(1, min(_MOST_CHILDREN, os.cpu_count() or 1))
        self._idle = [JsonChild(JsonProgram(path=path, name="math-verify")) for _ in range(most)]
        self._all = tuple(self._idle)
        self._changed = threading.Condition()

    def ask(self, question: Mapping[str, Any], timeout_s: float) -> Mapping[str, Any]:
        with self._changed:
            self._changed.wait_for(lambda: self._idle)
            # The one used last: the others have not been started.
            child = self._idle.pop()
        try:
            return child.ask(question, timeout_s)
        finally:
            with self._changed:
                self._idle.append(child)
                self._changed.notify()

    def close(self) -> None:
        for child in self._all:
            child.close()
