from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from astuner.contract.schema import Task, WorkflowOutput, WorkflowTask
from astuner_judges import MathAnswerAsJudge
from astuner_judges.symbolic import SymbolicComparer

BOMB = r"\boxed{9^{9^{9^{9}}}}"


@pytest.fixture(scope="module")
def judge() -> Iterator[MathAnswerAsJudge]:
    made = MathAnswerAsJudge(MathAnswerAsJudge.Options(symbolic=True, timeout_s=6.0))
    yield made
    made.close()


def is_right(judge: MathAnswerAsJudge, gold: str, answer: str) -> bool:
    task = WorkflowTask(Task("q", metadata={"answer": gold}))
    return judge.compute_reward(task, WorkflowOutput(metadata={"final_answer": answer}))[1]


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("x^2+1", r"\boxed{1+x^2}"),
        (r"\frac{\sqrt{2}}{2}", r"so it is $\boxed{\frac{1}{\sqrt{2}}}$"),
        ("4", r"\boxed{\sqrt{16}}"),
        (r"\{1, 2, 3\}", r"\boxed{\{3, 2, 1\}}"),
    ],
)
def test_equal_expressions_are_right(judge: MathAnswerAsJudge, gold: str, answer: str) -> None:
    assert is_right(judge, gold, answer)


@pytest.mark.parametrize(("gold", "answer"), [("x^2+1", r"\boxed{x^2+2}"), ("5", "5x"), ("18", r"\boxed{18 \text{ or } 20}")])
def test_other_expressions_are_wrong(judge: MathAnswerAsJudge, gold: str, answer: str) -> None:
    assert not is_right(judge, gold, answer)


def test_an_answer_that_takes_too_long_is_wrong_and_the_next_one_is_compared(judge: MathAnswerAsJudge) -> None:
    assert not is_right(judge, "x+1", BOMB)
    assert is_right(judge, "x+1", r"\boxed{1+x}")


def test_an_answer_that_takes_too_long_is_wrong_for_a_number(judge: MathAnswerAsJudge) -> None:
    assert not is_right(judge, "42", BOMB)


@pytest.mark.parametrize("answer", [r"\boxed{" + "9" * 5000 + "}", "x" * 100_000, r"\boxed{\frac{}{}{{}\sqrt}", "\\" * 5000])
def test_an_answer_that_cannot_be_read_is_wrong(judge: MathAnswerAsJudge, answer: str) -> None:
    assert not is_right(judge, "x+1", answer)


def test_a_long_number_is_compared_by_its_digits(judge: MathAnswerAsJudge) -> None:
    assert [is_right(judge, "9" * 5000, answer) for answer in ("9" * 5000, "9" * 4999 + "8", "1")] == [True, False, False]


def test_a_right_answer_that_cannot_be_compared_gives_no_verdict(judge: MathAnswerAsJudge) -> None:
    with pytest.raises(RuntimeError, match=r"the right answer '9\^\{9.* cannot be compared: it is too large to be computed"):
        is_right(judge, BOMB, "42")


def test_an_equal_tower_is_right_without_being_computed(judge: MathAnswerAsJudge) -> None:
    assert is_right(judge, BOMB, BOMB)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[SymbolicComparer, list[float]]]:
    """A comparer whose children are late for every answer but 1, and the CPU time that each question had."""
    asked: list[float] = []

    def ask(_: object, question: dict[str, object], timeout_s: float) -> dict[str, object]:
        if question["answer"] == "1":
            return {"equal": False}
        asked.append(float(str(question["cpu_s"])))
        return {"late": True}

    monkeypatch.setattr("astuner_judges.symbolic.JsonChild.ask", ask)
    comparer = SymbolicComparer(5.0)
    yield comparer, asked
    comparer.close()


def test_a_pair_that_took_too_long_is_not_compared_again(slow: tuple[SymbolicComparer, list[float]]) -> None:
    comparer, asked = slow
    assert [comparer.are_equal("x+1", "(x+1)^{7}") for _ in range(256)] == [False] * 256
    assert asked == [5.0]


def test_all_siblings_together_have_a_bounded_time(slow: tuple[SymbolicComparer, list[float]]) -> None:
    comparer, asked = slow
    assert not any(comparer.are_equal("x+1", f"x+{number}") for number in range(2, 258))
    assert asked[0] == 5.0
    assert sum(asked) < 7.0


def test_another_right_answer_has_all_of_the_time(slow: tuple[SymbolicComparer, list[float]]) -> None:
    comparer, asked = slow
    assert not any(comparer.are_equal(gold, "x+7") for gold in ("x+1", "x+2"))
    assert asked == [5.0, 5.0]


def test_what_computes_for_too_long_is_ended_by_its_cpu_time() -> None:
    comparer = SymbolicComparer(1.0)
    assert not comparer.are_equal("x", r"\sum_{k=1}^{99999999} \frac{\sin(k)}{k^2+1}")
    assert comparer.are_equal("x+1", "1+x")
    comparer.close()


def test_a_right_answer_that_math_verify_fails_on_gives_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astuner_judges.symbolic.JsonChild.ask", lambda *_: {"error": "ValueError: too many digits"})
    comparer = SymbolicComparer(60.0)
    with pytest.raises(RuntimeError, match=r"the right answer '1{80}'.* cannot be compared: math-verify failed: ValueError"):
        comparer.are_equal("1" * 5000, "42")
    comparer.close()


def test_answers_belong_to_their_questions_when_threads_ask_at_once() -> None:
    comparer = SymbolicComparer(60.0)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: comparer.are_equal("x+1", f"1+{'x' if i % 2 else 'y'}"), range(40)))
    comparer.close()
    assert found == [bool(i % 2) for i in range(40)]
