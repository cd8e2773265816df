"""The judge on all 8,792 questions of GSM8K: the reference solutions are right, and wrong in each way of being wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from astuner.contract.schema import Task, WorkflowOutput, WorkflowTask
from astuner_judges import MathAnswerAsJudge

DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "gsm8k"
ROWS = {"train": 7473, "test": 1319}

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the GSM8K files are not beside the repository")


def rows(split: str) -> list[dict[str, str]]:
    found = [json.loads(line) for line in (DATA / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(found) == ROWS[split]
    return found


def bare(row: dict[str, str]) -> str:
    return row["answer"].rpartition("####")[2].strip()


def corrupted(number: str) -> list[str]:
    value = int(number.replace(",", ""))
    first = str((int(str(abs(value))[0]) % 9) + 1) + str(abs(value))[1:]
    return [str(value + 1), f"{value - 1:,}", first if value >= 0 else f"-{first}", *([str(-value)] if value else [])]


def scores(row: dict[str, str], answers: list[str]) -> set[float]:
    judge = MathAnswerAsJudge(MathAnswerAsJudge.Options(symbolic=False))
    task = WorkflowTask(Task(row["question"], metadata={"answer": row["answer"]}))
    return {judge.compute_reward(task, WorkflowOutput(metadata={"final_answer": answer}))[0] for answer in answers}


@pytest.mark.parametrize("split", ROWS)
def test_every_reference_answer_is_right(split: str) -> None:
    wrong = [r for r in rows(split) if scores(r, [r["answer"], bare(r), f"\\boxed{{{bare(r)}}}", f"A: {bare(r)}"]) != {1.0}]
    assert wrong == []


@pytest.mark.parametrize("split", ROWS)
def test_every_corrupted_answer_is_wrong(split: str) -> None:
    def answers(row: dict[str, str]) -> list[str]:
        solution = row["answer"].rpartition("####")[0]
        return [
            text for n in corrupted(bare(row)) for text in (n, f"\\boxed{{{n}}}", f"{solution}#### {n}", f"The answer is {n}.")
        ]

    assert [row for row in rows(split) if scores(row, answers(row)) != {0.0}] == []


@pytest.mark.parametrize("split", ROWS)
def test_the_last_sentence_of_a_solution_is_read_without_its_marker(split: str) -> None:
    found = [scores(row, [row["answer"].rpartition("####")[0]]) for row in rows(split)]
    # The references themselves end in another number than their answer about once in 200 (cents for dollars, slips).
    assert found.count({1.0}) / len(found) > 0.99
