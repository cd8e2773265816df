"""The judge `math` keeps the contract of judges, and the package that of packages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
from attrs import evolve

from astuner.contract.schema import Group, Task, WorkflowOutput
from astuner_devkit.contracts import JudgeContract, PackageContract
from astuner_devkit.episodes import episode, group
from astuner_judges.symbolic import is_available


class TestMath(JudgeContract):
    component = "astuner_judges.math_judge:MathAnswerAsJudge"
    options: ClassVar[Mapping[str, Any]] = {"symbolic": False, "success_reward": 2.0}


@pytest.mark.skipif(not is_available(), reason="math-verify comes with the extra math-verify")
class TestMathWithExpressions(JudgeContract):
    """Expressions are compared in a child process, which is a call to the outside."""

    component = "astuner_judges.math_judge:MathAnswerAsJudge"
    options: ClassVar[Mapping[str, Any]] = {"symbolic": True}

    def group(self) -> Group:
        task = Task("Half of x + 1?", task_id="half", metadata={"answer": r"\frac{x+1}{2}"})
        answers = ["x/2 + 1/2", "x + 1", r"\frac{1}{2}(x+1)", None]
        outputs = [None if answer is None else WorkflowOutput(metadata={"final_answer": answer}) for answer in answers]
        episodes = [evolve(episode(n, None), task=task, output=output, verdict=None) for n, output in enumerate(outputs)]
        return group(*episodes)

    def break_calls(self, judge: Any) -> None:
        def equal(gold: str, answer: str) -> bool:
            raise TimeoutError("the child does not answer")

        judge._comparer.are_equal = equal


class TestPackage(PackageContract):
    distribution = "astuner-judges"
