"""Comparing symbolic answers with math-verify, in a child process that is killed when it takes too long."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from astuner.processes.json_child import JsonChild, JsonProgram


def is_available() -> bool:
    """Whether math-verify is installed; it is not imported."""
    return find_spec("math_verify") is not None


class SymbolicComparer:
    """Asks math-verify whether two expressions are equal. Thread-safe; one child at a time, started when first needed.

    An expression such as 9^(9^(9^9)) cannot be interrupted inside a process, so the process is killed and replaced.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        path = Path(__file__).with_name("symbolic_child.py")
        self._child = JsonChild(JsonProgram(path=path, name="math-verify", arguments=(str(timeout_s),)))

    def are_equal(self, gold: str, answer: str) -> bool:
        """Return whether they are equal. Raises `TimeoutError` if that takes too long, `RuntimeError` if math-verify fails."""
        try:
            found = self._child.ask({"gold": gold, "answer": answer}, self._timeout_s)
        except TimeoutError as error:
            raise TimeoutError(f"{error}, on {answer[:80]!r}") from None
        if "error" in found:
            raise RuntimeError(f"math-verify failed on {answer[:80]!r}: {found['error']}")
        return bool(found["equal"])

    def close(self) -> None:
        """End the child."""
        self._child.close()
