"""The figure that learning is held to: a judge that is wrong in one verdict of ten, and rubrics that are right nonetheless."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

from astuner.contract.schema import Task, Verdict
from astuner_judges.evaluation.judging import ask
from astuner_judges.evaluation.labelled import LabelledExample, read_examples
from astuner_judges.rubrics.judge import RubricsAutoGrader

LEARNT_FROM, HELD_OUT = 24, 50


def examples(rows: Sequence[dict[str, Any]], workplace: Any) -> list[LabelledExample]:
    tasks = (Task(row["main_query"], metadata={k: v for k, v in row.items() if k != "main_query"}) for row in rows)
    return list(read_examples(tasks, workplace.options(rows).fields))


def test_chosen_rubrics_agree_with_held_out_labels_where_no_single_proposal_does(
    workplace: Any, noisy: Any, saved: Any, telling: Any
) -> None:
    learning, held_out = workplace.world.rows(LEARNT_FROM, seed=1), workplace.world.rows(HELD_OUT, seed=2)
    options = workplace.options(learning, generate_number=1)
    judge = RubricsAutoGrader.from_run(options, workplace.run_info())
    rows = examples(held_out, workplace)
    assert not {digest for row in rows for digest in row.digests} & judge.learnt_from

    judged_examples = asyncio.run(ask(judge, rows, "final_answer", both_orders=False))
    right = [
        isinstance(judgement, Verdict) and judgement.is_success == (answer.label >= options.success_threshold)
        for judged in judged_examples
        for judgement, answer in zip(judged.forwards, judged.example.answers, strict=True)
    ]
    proposals = {
        rubric
        for asked in workplace.api.prompts()
        if '"score"' in asked
        for rubric in re.findall(r"(?m)^1\. (.*)$", asked.split("The question:")[0])
    }

    def agreement(rubric: str) -> float:
        verdicts = [noisy.met(rubric, row["main_query"], row["final_answer"]) == (row["score"] == 1.0) for row in held_out]
        return sum(verdicts) / len(verdicts)

    best_in_hindsight = max(agreement(rubric) for rubric in proposals)
    learnt = saved(workplace.home / "run/rubrics/auto_grader.yaml")["learnt"]["rubrics"]
    trusted = max(learnt, key=lambda one: one["agreement"])
    figures = f"chosen {sum(right) / len(right):.3f}, best single proposal {best_in_hindsight:.3f}, the one trusted most "
    print(f"{figures}{agreement(trusted['rubric']):.3f}")  # for the documentation: pytest -s
    assert sum(right) / len(right) >= 0.9
    assert best_in_hindsight < 0.9
    # Empty criteria reproduced the label of their own example, and other examples gave them away.
    assert any(not any(word in rubric for word in telling) for rubric in proposals)
    assert all(any(word in one["rubric"] for word in telling) for one in learnt)
