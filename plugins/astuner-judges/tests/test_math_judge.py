from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner.contract.errors import DataError
from astuner.contract.schema import Task, WorkflowOutput, WorkflowTask
from astuner_judges import MathAnswerAsJudge
from astuner_judges.answer_texts import find_stated_texts, normalize
from astuner_judges.chinese_numerals import write_numerals


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


@pytest.mark.parametrize("gold", ["5 s", "5 miles", "Paris", "3, 5", "C", "x^2"])
@given(answer=st.text(max_size=60) | st.text("5 ſKİmles$万亿分之一()[]{}\\,.%^°'\"", max_size=30))
def test_no_answer_makes_the_judge_fail(gold: str, answer: str) -> None:
    assert judged(gold, answer, symbolic=False)[0] in (0.0, 1.0)


@pytest.mark.parametrize("answer", ["5 ſ", "It takes 5 ſec"])
def test_letters_that_only_look_like_a_unit_are_none(answer: str) -> None:
    assert judged("5 s", answer) == (1.0, True)


def test_an_answer_that_breaks_the_comparison_is_wrong(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RecursionError("maximum recursion depth exceeded")

    monkeypatch.setattr("astuner_judges.math_judge.find_final_answer", fail)
    assert judged("18", "((((") == (0.0, False)
    assert "could not be compared with '18'" in caplog.text


@pytest.mark.parametrize("text", ['"' * 25_000, "$" * 10_000, "Answer: " + "a " * 20_000, "\\boxed{" + "x" * 9_000 + "}"])
def test_what_may_be_an_answer_has_a_bounded_length(text: str) -> None:
    assert max(map(len, find_stated_texts(text))) <= 2_000


def test_marks_around_a_text_are_taken_off_a_bounded_number_of_times() -> None:
    assert len(normalize('"' * 1_900)) > 1_800


def test_keys_are_options() -> None:
    judge = MathAnswerAsJudge(MathAnswerAsJudge.Options(answer_key="solution", final_answer_key="said"))
    task = WorkflowTask(Task("q", metadata={"solution": "7"}))
    assert judge.compute_reward(task, WorkflowOutput(metadata={"said": "It is 7."})) == (1.0, True)


def test_an_answer_that_is_no_number_is_compared_as_text_without_math_verify() -> None:
    assert judged("x^2 + 1", r"\boxed{x^2+1}") == (1.0, True)
    assert judged("x^2 + 1", r"\boxed{1+x^2}") == (0.0, False)


@pytest.mark.parametrize(("gold", "answer"), [("10 cm", "10 m"), ("5 km", "5 miles"), ("€5", "$5")])
def test_units_and_currencies_can_be_ignored(gold: str, answer: str) -> None:
    assert [judged(gold, answer, units=units)[1] for units in ("compare", "ignore")] == [False, True]


@pytest.mark.parametrize(
    ("gold", "answer"), [("Paris", "The answer is Paris"), ("1000", "1e3"), ("42", "四十二"), ("3, 5", "5, 3")]
)
def test_texts_numbers_and_lists_need_no_math_verify(gold: str, answer: str) -> None:
    assert judged(gold, answer) == (1.0, True)


@given(st.integers(0, 99_999_999))
def test_chinese_numerals_are_read_back(number: int) -> None:
    assert write_numerals(spell_in_chinese(number)) == str(number)


def spell_in_chinese(number: int) -> str:
    """Write a number below 10^8 in its long form: 十 is 一十."""
    digits, places = "零一二三四五六七八九", ["", "十", "百", "千"]

    def spell_section(section: str) -> str:
        parts = [digits[int(digit)] + places[3 - i] if digit != "0" else "零" for i, digit in enumerate(section)]
        return re.sub("零+", "零", "".join(parts)).rstrip("零")

    written = f"{number:08}"
    high, low = spell_section(written[:4]), spell_section(written[4:])
    return (re.sub("零+", "零", f"{high}万{low}" if high.strip("零") else low).lstrip("零")) or "零"


@given(st.text(max_size=40), st.text(max_size=40))
def test_no_text_breaks_the_judge(gold: str, answer: str) -> None:
    assert judged(f"a{gold}", answer)[0] in (0.0, 1.0)


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
