"""The judge `math`: whether the final answer is the right one."""

from __future__ import annotations

import math
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal

from attrs import field, frozen
from attrs.validators import gt

from astuner.errors import DataError, PluginError
from astuner.schema import WorkflowOutput, WorkflowTask
from astuner_judges.final_answer import Answer, find_final_answer, parse_gold_answer
from astuner_judges.quantities import are_equal
from astuner_judges.symbolic import SymbolicComparer, is_available


class MathAnswerAsJudge:
    """Compares the workflow's final answer with the task's, as numbers, or as expressions if one of them is not a number.

    Both may be whole solutions: the final answer is looked for in them (see `astuner_judges.final_answer`). A missing
    answer is wrong; a missing right answer, or an expression that cannot be compared in time, raises.
    """

    @frozen(kw_only=True)
    class Options:
        """Options of the judge `math`."""

        answer_key: str = "answer"
        """Where the task's metadata holds the right answer."""
        final_answer_key: str = "final_answer"
        """Where the workflow's output metadata holds its answer."""
        symbolic: Literal["auto", True, False] = "auto"
        """Compare expressions other than numbers with math-verify: if it is installed, always, or never."""
        timeout_s: float = field(default=5.0, validator=gt(0))
        """Longest time for such a comparison."""
        success_reward: float = 1.0
        """Of a right answer."""
        failure_reward: float = 0.0
        """Of a wrong or missing answer."""

    def __init__(self, options: Options | None = None) -> None:
        self._options = options or self.Options()
        installed = self._options.symbolic is not False and is_available()
        if self._options.symbolic is True and not installed:
            raise PluginError(
                'task_judge.math.symbolic: math-verify is not installed: pip install "astuner-judges[math-verify]", '
                "or set symbolic to auto or false"
            )
        self._comparer = SymbolicComparer(self._options.timeout_s) if installed else None

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> tuple[float, bool]:
        """Return the reward and whether the answer is right. Thread-safe."""
        task, options = workflow_task.task, self._options
        gold = _text(task.metadata.get(options.answer_key))
        if gold is None:
            raise DataError(
                f"judge 'math': task '{task.task_id}' has no right answer in metadata['{options.answer_key}'] "
                f"(there are: {', '.join(task.metadata) or 'none'}); map it by `columns` of the reader, or set answer_key"
            )
        right = self._is_right(gold, workflow_output.metadata.get(options.final_answer_key), task.main_query)
        return (options.success_reward if right else options.failure_reward), right

    def close(self) -> None:
        """End the child process of symbolic comparisons."""
        if self._comparer is not None:
            self._comparer.close()

    def _is_right(self, gold_text: str, given: Any, question: str) -> bool:
        gold = _parse_gold(gold_text)
        if isinstance(given, float) and gold.quantity is not None:
            # A computed number carries rounding errors; a written one does not.
            return any(math.isclose(given, reading, rel_tol=1e-9) for reading in gold.quantity.readings)
        text = _text(given)
        answer = find_final_answer(text, question) if text is not None else None
        if answer is None:
            return False
        if gold.quantity is not None and answer.quantity is not None:
            return are_equal(gold.quantity, answer.quantity)
        return self._is_same_expression(gold, answer)

    def _is_same_expression(self, gold: Answer, answer: Answer) -> bool:
        if _strip_notation(gold.text) == _strip_notation(answer.text):
            return True
        return self._comparer is not None and self._comparer.are_equal(gold.text, answer.text)


@lru_cache(maxsize=1024)
def _parse_gold(text: str) -> Answer:
    """Read a right answer once for all siblings of a group."""
    return parse_gold_answer(text)


def _text(value: Any) -> str | None:
    """Return an answer as text; None if there is none."""
    if value is None or isinstance(value, str):
        return value if value and value.strip() else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DataError(f"judge 'math': an answer is a text or a number, not {type(value).__name__}: {str(value)[:80]!r}")
    return str(value) if isinstance(value, int) else format(Decimal(repr(value)), "f")


def _strip_notation(text: str) -> str:
    return "".join(text.split()).strip("$.*`\"'").casefold()
