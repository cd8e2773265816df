"""The judge `math`: whether the final answer is the right one."""

from __future__ import annotations

import logging
import math
import re
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal

from attrs import evolve, field, frozen
from attrs.validators import gt

from astuner.contract.errors import AstunerError, DataError, PluginError
from astuner.contract.schema import WorkflowOutput, WorkflowTask
from astuner.shared.install_hints import install_command
from astuner_judges.answer_texts import (
    align_unknowns,
    are_same_text,
    find_stated_texts,
    have_same_form,
    is_choice,
    is_prose,
    is_sentence,
    split_items,
)
from astuner_judges.expressions import may_be_number
from astuner_judges.final_answer import (
    Answer,
    find_final_answer,
    is_list_of_numbers,
    is_value,
    parse_expression,
    parse_gold_answer,
)
from astuner_judges.quantities import are_equal, read_percent, read_scale, write_number
from astuner_judges.symbolic import SymbolicComparer, is_available

_MARKUP = 40
"""Characters that markup may add to an answer that is nothing else."""
_LONGEST_EXPRESSION = 2000
"""Characters of an answer that math-verify is asked about."""
_EQUALS = re.compile(r"(?<![<>!])=")
_LONG_NUMBER = re.compile(r"-?[0-9]{100,}")

log = logging.getLogger(__name__)


class MathAnswerAsJudge:
    """Compares the workflow's final answer with the task's: as texts, as numbers, then as expressions.

    Both may be whole solutions: the final answer is looked for in them (see `astuner_judges.final_answer`). An answer that is
    missing, or that cannot be compared, is wrong. A right answer that is missing, or that cannot be compared in time, raises.
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
        units: Literal["compare", "ignore"] = "compare"
        """With `compare`, `5000 m` is 5 km, but `5 miles` is not, and `$5` is not €5; a unit or currency that only one of the two
        numbers has does not count. With `ignore`, only the numbers do."""
        timeout_s: float = field(default=5.0, validator=gt(0))
        """Longest CPU time of such a comparison."""
        success_reward: float = 1.0
        """Of a right answer."""
        failure_reward: float = 0.0
        """Of a wrong or missing answer."""

    def __init__(self, options: Options | None = None) -> None:
        self._options = options or self.Options()
        installed = self._options.symbolic is not False and is_available()
        if self._options.symbolic is True and not installed:
            raise PluginError(
                f"task_judge.math.symbolic: math-verify is not installed: {install_command('astuner-judges[math-verify]')}, "
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
        right = self._is_right(_parse_gold(gold), workflow_output.metadata.get(options.final_answer_key), task.main_query)
        return (options.success_reward if right else options.failure_reward), right

    def close(self) -> None:
        """End the child process of symbolic comparisons."""
        if self._comparer is not None:
            self._comparer.close()

    def _is_right(self, gold: Answer, given: Any, question: str) -> bool:
        if isinstance(given, float) and gold.quantity is not None:
            # A computed number carries rounding errors; a written one does not.
            return any(math.isclose(given, reading, rel_tol=1e-9) for reading in gold.quantity.readings)
        text = _text(given)
        if text is None:
            return False
        try:
            if gold.quantity is not None:
                return self._is_same_number(gold, text, question) or _is_nothing_but(gold, text)
            return _is_nothing_but(gold, text) or self._is_same_text(gold, text, question)
        except Exception as error:
            if isinstance(error, AstunerError | TimeoutError | RuntimeError) and not isinstance(error, RecursionError):
                # The right answer cannot be compared.
                raise
            # Otherwise a policy could avoid a low reward by answers that cannot be read.
            log.warning("an answer that could not be compared with %r is wrong: %.200r", gold.text, text, exc_info=True)
            return False

    def _is_same_number(self, gold: Answer, text: str, question: str) -> bool:
        answer = None if is_list_of_numbers(text) else find_final_answer(text, question)
        if answer is None:
            return False
        if gold.quantity is not None and answer.quantity is not None:
            given = read_scale(answer.quantity, gold.quantity, question)
            return are_equal(read_percent(gold.quantity, given, question), given, units=self._options.units == "compare")
        if not may_be_number(answer.text) or ("=" in answer.text and not is_value(answer.text, question)):
            return False
        return self._are_same_expressions(gold, answer.text)

    def _is_same_text(self, gold: Answer, text: str, question: str) -> bool:
        """Whether an answer is right where the right one is not a number."""
        point, stated = align_unknowns(gold.text, find_stated_texts(text))
        gold = evolve(gold, text=point)
        if any(are_same_text(gold.text, one) or is_choice(gold.text, one) for one in stated):
            return True
        if is_prose(gold.text) or _LONG_NUMBER.fullmatch(gold.text):
            return False
        if len(items := split_items(gold.text)) > 1 and _are_same_numbers(items, split_items(stated[-1])):
            return True
        if not stated[-1] or is_sentence(stated[-1]):
            answer = find_final_answer(text, question)
            return answer is not None and self._are_same_expressions(gold, answer.text)
        return self._are_same_expressions(gold, stated[-1])

    def _are_same_expressions(self, gold: Answer, answer: str) -> bool:
        if are_same_text(gold.text, answer):
            return True
        if self._comparer is None or not answer or len(answer) > _LONGEST_EXPRESSION:
            return False
        if not have_same_form(gold.text, answer) or _is_equation(gold.text) > bool(_EQUALS.search(answer)):
            return False
        wanted = gold.text if gold.quantity is None else write_number(gold.quantity)
        return self._comparer.are_equal(", ".join(split_items(wanted)), ", ".join(split_items(answer)))


def _is_equation(text: str) -> bool:
    """Whether a text is an equation in unknowns, and not what one thing is."""
    return _EQUALS.search(text) is not None and not is_value(text, "")


def _is_nothing_but(gold: Answer, text: str) -> bool:
    return len(text) < 2 * len(gold.text) + _MARKUP and are_same_text(gold.text, text)


def _are_same_numbers(gold: list[str], answer: list[str]) -> bool:
    """Whether two lists hold the same numbers, in any order."""
    wanted = [parse_expression(item).quantity for item in gold]
    given = [parse_expression(item).quantity for item in answer]
    for one in wanted:
        match = next((two for two in given if one is not None and two is not None and are_equal(one, two)), None)
        if match is None:
            return False
        given.remove(match)
    return not given


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
