from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from astuner.errors import DataError
from astuner.schema import Task, WorkflowOutput, WorkflowTask
from astuner_judges import MathAnswerAsJudge


def judged(gold: Any, answer: Any, question: str = "", **options: Any) -> tuple[float, bool]:
    judge = MathAnswerAsJudge(MathAnswerAsJudge.Options(**{"symbolic": False, **options}))
    task = WorkflowTask(Task(question, task_id="t1", metadata={"answer": gold}))
    return judge.compute_reward(task, WorkflowOutput(metadata={"final_answer": answer}))


def test_a_right_answer_is_rewarded_and_a_success() -> None:
    assert judged("#### 18", "She makes $18 a day.") == (1.0, True)


def test_a_wrong_answer_gets_the_other_reward() -> None:
    assert judged("18", "17", success_reward=2.0, failure_reward=-1.0) == (-1.0, False)


@pytest.mark.parametrize("answer", [None, "", "  \n", "I cannot tell."])
def test_no_answer_is_a_wrong_answer(answer: object) -> None:
    assert judged("18", answer) == (0.0, False)


@pytest.mark.parametrize("gold", [None, "", " "])
def test_no_right_answer_is_a_failure_of_the_judge(gold: object) -> None:
    with pytest.raises(DataError, match=r"task 't1' has no right answer in metadata\['answer'\]"):
        judged(gold, "18")


def test_an_answer_of_another_type_is_a_failure_of_the_judge() -> None:
    with pytest.raises(DataError, match="not list"):
        judged("18", ["18"])


@pytest.mark.parametrize(
    ("gold", "answer"),
    [(18, "18"), ("18", 18), ("18.0", 18), (0.3, 0.1 + 0.2), ("0.3", 0.1 + 0.2), ("50%", 0.5), (1e-7, "0.0000001")],
)
def test_numbers_may_be_given_as_numbers(gold: object, answer: object) -> None:
    assert judged(gold, answer) == (1.0, True)


def test_keys_are_options() -> None:
    judge = MathAnswerAsJudge(MathAnswerAsJudge.Options(answer_key="solution", final_answer_key="said"))
    task = WorkflowTask(Task("q", metadata={"solution": "7"}))
    assert judge.compute_reward(task, WorkflowOutput(metadata={"said": "It is 7."})) == (1.0, True)


def test_an_answer_that_is_no_number_is_compared_as_text_without_math_verify() -> None:
    assert judged("x^2 + 1", r"\boxed{x^2+1}") == (1.0, True)
    assert judged("x^2 + 1", r"\boxed{1+x^2}") == (0.0, False)


def test_threads_may_share_a_judge() -> None:
    judge = MathAnswerAsJudge()

    def right(number: int) -> bool:
        task = WorkflowTask(Task("q", metadata={"answer": f"#### {number}"}))
        return judge.compute_reward(task, WorkflowOutput(metadata={"final_answer": f"It is {number}."}))[1]

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(right, range(400)))


def test_importing_the_package_imports_no_sympy() -> None:
    code = "import sys, astuner_judges; print([m for m in ('sympy', 'math_verify', 'numpy') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
