"""Checks per second of the judge `math` on one core: `python benchmarks/judge_math.py [--seconds 1.0]`."""

from __future__ import annotations

import argparse
import time

from rich.console import Console
from rich.table import Table

from astuner.contract.schema import Task, WorkflowOutput, WorkflowTask
from astuner_judges import MathAnswerAsJudge

SOLUTION = "Janet sells 16 - 3 - 4 = <<16-3-4=9>>9 duck eggs a day.\nShe makes 9 * 2 = $<<9*2=18>>18 every day.\n#### 18"
LONG = (
    "To find what Janet makes, we first count the eggs that are left.\n\n**Step 1:** she eats 3 and bakes with 4, so "
    "$16 - 3 - 4 = 9$ eggs remain.\n\n**Step 2:** she sells each for \\$2, so $9 \\times 2 = 18$.\n\n"
)
ANSWERS = {
    "a bare number": "18",
    "a number with currency": "$18.00",
    "a box": "\\boxed{18}",
    "a long answer with a box": LONG + "So the answer is $\\boxed{18}$.",
    "a solution with ####": SOLUTION,
    "a long answer with a marker": LONG + "**Final Answer:** $18",
    "a last sentence": LONG + "Therefore, Janet makes **$18** every day.",
    "a wrong answer": SOLUTION.replace("18", "19"),
}


def checks_per_second(answer: str, seconds: float) -> float:
    judge = MathAnswerAsJudge()
    task = WorkflowTask(Task("How much does Janet make with 16 eggs a day at $2?", metadata={"answer": SOLUTION}))
    output = WorkflowOutput(metadata={"final_answer": answer})
    count, start = 0, time.process_time()
    while (elapsed := time.process_time() - start) < seconds:
        for _ in range(100):
            judge.compute_reward(task, output)
        count += 100
    return count / elapsed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="time per row")
    seconds = parser.parse_args().seconds
    table = Table("final answer", "characters", "checks/s", title="judge math, one core")
    for name, answer in ANSWERS.items():
        table.add_row(name, str(len(answer)), f"{checks_per_second(answer, seconds):,.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
