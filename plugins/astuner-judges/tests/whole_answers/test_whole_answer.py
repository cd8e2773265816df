"""The judge `math` reads the whole of an answer: a number inside a larger expression is not the answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from number_forms import right_answers, wrong_answers

from astuner.contract.schema import Task, WorkflowOutput, WorkflowTask
from astuner_judges import MathAnswerAsJudge

CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("math_verify_cases.json").read_text(encoding="utf-8"))
OTHER_FORMS: dict[str, list[list[str]]] = json.loads(Path(__file__).with_name("other_forms.json").read_text(encoding="utf-8"))
"""Right answers, and what is wrong for them and what is right: signs, bases, times, words, choices, points, several boxes."""
Judged = Callable[..., bool]


@pytest.fixture(scope="module", params=[False, True], ids=["alone", "with math-verify"])
def judged(request: pytest.FixtureRequest) -> Iterator[Judged]:
    judge = MathAnswerAsJudge(MathAnswerAsJudge.Options(symbolic=request.param, timeout_s=20.0))

    def is_right(gold: str, answer: str, question: str = "What is it?") -> bool:
        task = WorkflowTask(Task(question, metadata={"answer": gold}))
        return judge.compute_reward(task, WorkflowOutput(metadata={"final_answer": answer}))[1]

    is_right.symbolic = request.param  # type: ignore[attr-defined]
    yield is_right
    judge.close()


def test_no_wrong_answer_around_the_right_number_is_accepted(judged: Judged) -> None:
    answers = list(dict.fromkeys(wrong_answers()))
    assert len(answers) > 5000
    # math-verify takes 20 ms for each: it sees every form, in some of its frames.
    assert [pair for pair in answers[:: 5 if judged.symbolic else 1] if judged(*pair)] == []  # type: ignore[attr-defined]


def test_no_right_form_of_a_number_is_refused(judged: Judged) -> None:
    answers = list(dict.fromkeys(right_answers()))
    assert len(answers) > 900
    assert [pair for pair in answers if not judged(*pair)] == []


def test_no_wrong_answer_in_another_form_is_accepted(judged: Judged) -> None:
    assert len(OTHER_FORMS["wrong"]) > 850
    assert [pair for pair in OTHER_FORMS["wrong"] if judged(*pair)] == []


def test_no_right_answer_in_another_form_is_refused(judged: Judged) -> None:
    if not judged.symbolic:  # type: ignore[attr-defined]
        pytest.skip("expressions need math-verify")
    assert len(OTHER_FORMS["right"]) > 500
    assert [pair for pair in OTHER_FORMS["right"] if not judged(*pair)] == []


def test_a_word_for_a_large_number_counts_unless_the_question_has_it(judged: Judged) -> None:
    assert judged("4", "4 million", "How many million people live there?")
    assert judged("4000000", "4 million", "How many people live there?")
    assert not judged("4", "4 million", "How many people live there?")


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_verdicts_are_those_of_the_tests_of_math_verify_but_for_a_reason(case: dict[str, Any], judged: Judged) -> None:
    if not judged.symbolic:  # type: ignore[attr-defined]
        pytest.skip("the verdicts are those with math-verify")
    assert judged(case["gold"], case["answer"]) is (case["math_verify"] is not ("because" in case))


def test_most_verdicts_need_no_reason() -> None:
    assert (len(CASES), sum("because" in case for case in CASES)) == (248, 20)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("7", r"\boxed{7} is my first idea. No wait, it is \boxed{"),
        ("7", r"\boxed{7} hmm. So the answer is \boxed{}"),
        ("7", r"\boxed{7} hmm. So the answer is \boxed{ }."),
        ("7", r"So \boxed{7}. Wait, \boxed"),
        ("7", r"\boxed{7+\boxed{7}}"),
        ("Paris", r"\boxed{Paris} or rather \boxed{"),
        ("7", r"It is $-\boxed{7}$."),
        ("7", r"It is $\boxed{7}\pi$."),
        ("7", r"It is $\sqrt{\boxed{7}}$."),
        ("7", r"It is $2 \cdot \boxed{7}$."),
        ("7", "x = 7 at first. The answer is unknown."),
        ("7", "It is 7 at first. So the answer is $e^{7}$."),
        ("7", "x is 7. The answer is 7 or 9."),
        ("2x + z = 1", r"\boxed{1}"),
        ("$a^2+b=0$", r"\boxed{0}"),
        ("$x+y=1$", "The answer is 1."),
        ("1", r"\boxed{2x + z = 1}"),
        ("1", "So we have 2x + z = 1."),
        ("(1,2)", r"\boxed{\{1,2\}}"),
        (r"\{1,2\}", r"\boxed{(1,2)}"),
        (r"\{2,1\}", r"$\left(1,2\right)$"),
        ("(1,2,3)", r"\boxed{\{1,2,3\}}"),
        ("12:30", r"\boxed{0.4}"),
        ("0.4", "12:30"),
        ("12:30", r"\boxed{2:5}"),
        ("50", r"\boxed{5000\%}"),
        ("0.5", r"\boxed{0.5\%}"),
        ("1e-7", r"\boxed{2 \cdot 10^{-7} + 0}"),
        ("1e-5", r"\boxed{10^{-6}}"),
        ("4", "The answer is four plus two."),
        ("4", r"\boxed{\text{four squared}}"),
        ("4", "4的平方"),
        ("4", r"\boxed{4^\circ + x}"),
        ("18", "The answer is 18! = 6402373705728000"),
    ],
)
def test_what_states_something_else_is_wrong(gold: str, answer: str, judged: Judged) -> None:
    assert not judged(gold, answer)


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("-10/9", r"-\frac{10}{9}"),
        ("-10/9", r"$-\frac{10}{9}$"),
        ("-10/9", r"The answer is $- \frac{10}{9}$."),
        ("32349", r"\boxed{32,\! 349}"),
        ("11111111100", r"is $\boxed{11,\! 111,\! 111,\! 100}$"),
        ("1/3", r"0.\overline{3}"),
        (r"0.\overline{3}", r"\boxed{\frac13}"),
        ("7/6", r"\boxed{1.1\overline{6}}"),
        ("1", r"\boxed{0.\overline{9}}"),
        ("1e-5", r"\boxed{10^{-5}}"),
        ("1e6", r"\boxed{10^6}"),
        ("1e6", r"The answer is $10^{6}$."),
        ("2e3", r"\boxed{2 \cdot 10^3}"),
        ("50", r"\boxed{50\%}"),
        ("0.5", r"\boxed{50\%}"),
        ("12:30", "12:30"),
        ("x=5", r"\boxed{5}"),
        ("4", r"Thus $\sum_{k=1}^{2} (k+\frac12) = 4$."),
        ("18", "The answer is 18! She sells 9 eggs."),
        ("4", r"The answer is $x = 4$."),
        ("28", r"$\boxed{28}$ percent"),
        ("9", r"$129^{34} \equiv \boxed{9} \pmod{11}.$"),
        ("18", "The total is 18. I put it in \\boxed form: \\boxed{18}"),
        ("3, 5", r"$\boxed{3} \quad \text{and} \quad \boxed{5}$"),
    ],
)
def test_right_forms_are_right(gold: str, answer: str, judged: Judged) -> None:
    assert judged(gold, answer)


def test_a_sum_is_right_if_the_question_asks_for_it(judged: Judged) -> None:
    assert judged("7", r"\boxed{m+n = 7}", "Find $m + n$.")
    assert not judged("7", r"\boxed{m+n = 7}", "Solve it.")


def test_a_share_in_percent_is_right_if_the_question_asks_for_percent(judged: Judged) -> None:
    assert judged("0.5", "0.5%", "What percent of 200 is 1?")
    assert not judged("0.5", "50%", "What percent of 200 is 1?")


def test_a_matrix_in_a_sentence_is_read(judged: Judged) -> None:
    matrix = r"$ \begin{pmatrix}1 & 0 \\ 0 & 1\end{pmatrix} $"
    assert judged(matrix, f"The identity matrix is {matrix}.")
