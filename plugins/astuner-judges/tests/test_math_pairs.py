"""The judge `math` on right and wrong answers; `python benchmarks/judge_math_pairs.py` shows math-verify alone next to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from astuner.contract.schema import Task, WorkflowOutput, WorkflowTask
from astuner_judges import MathAnswerAsJudge

PAIRS = json.loads(Path(__file__).with_name("math_pairs.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def judge() -> Iterator[MathAnswerAsJudge]:
    made = MathAnswerAsJudge(MathAnswerAsJudge.Options(symbolic=True, timeout_s=20.0))
    yield made
    made.close()


def is_right(judge: MathAnswerAsJudge, gold: str, answer: str) -> bool:
    task = WorkflowTask(Task("What is it?", metadata={"answer": gold}))
    return judge.compute_reward(task, WorkflowOutput(metadata={"final_answer": answer}))[1]


@pytest.mark.parametrize(("gold", "answer"), PAIRS["right"])
def test_a_right_answer_is_right_however_it_is_written(judge: MathAnswerAsJudge, gold: str, answer: str) -> None:
    assert is_right(judge, gold, answer)


@pytest.mark.parametrize(("gold", "answer"), PAIRS["wrong"])
def test_a_wrong_answer_is_wrong(judge: MathAnswerAsJudge, gold: str, answer: str) -> None:
    assert not is_right(judge, gold, answer)


@pytest.mark.parametrize("gold", sorted({gold for gold, _ in (*PAIRS["right"], *PAIRS["wrong"])}))
def test_an_answer_equal_to_the_right_one_is_right(judge: MathAnswerAsJudge, gold: str) -> None:
    assert [is_right(judge, gold, answer) for answer in (gold, f"\\boxed{{{gold}}}", f"Answer: {gold}")] == [True] * 3
