"""The judge `math` next to math-verify alone, on the pairs of its tests: `python benchmarks/judge_math_pairs.py [--all]`."""

from __future__ import annotations

import argparse
import json
import logging
from pathlib import Path

from math_verify import parse, verify
from rich.console import Console
from rich.table import Table

from astuner.contract.schema import Task, WorkflowOutput, WorkflowTask
from astuner_judges import MathAnswerAsJudge

PAIRS = Path(__file__).resolve().parents[1] / "plugins" / "astuner-judges" / "tests" / "math_pairs.json"


def accepts_alone(gold: str, answer: str) -> bool:
    """Compare as math-verify's own readers do: the gold answer as a formula, the other as text, then as a formula."""
    given = parse(answer) or parse(f"${answer}$")
    return bool(verify(parse(f"${gold}$") or parse(gold), given))


def main() -> None:
    """Print a table of how many pairs each judges as the tests say, and with `--all` every pair that they judge differently."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--all", action="store_true")
    show_all = arguments.parse_args().all
    logging.disable()
    judge = MathAnswerAsJudge(MathAnswerAsJudge.Options(symbolic=True))
    without = MathAnswerAsJudge(MathAnswerAsJudge.Options(symbolic=False))
    table = Table("pairs", "number", "judge math", "without math-verify", "math-verify alone", title="judged as they should be")
    for kind, pairs in json.loads(PAIRS.read_text(encoding="utf-8")).items():
        counts = [0, 0, 0]
        for gold, answer in pairs:
            task = WorkflowTask(Task("What is it?", metadata={"answer": gold}))
            output = WorkflowOutput(metadata={"final_answer": answer})
            found = [one.compute_reward(task, output)[1] for one in (judge, without)] + [accepts_alone(gold, answer)]
            counts = [count + (one is (kind == "right")) for count, one in zip(counts, found, strict=True)]
            if show_all and found[0] != found[2]:
                Console().print(kind, repr(gold), repr(answer), "alone:", found[2], markup=False, highlight=False)
        table.add_row(kind, str(len(pairs)), *(str(count) for count in counts))
    judge.close()
    Console().print(table)


if __name__ == "__main__":
    main()
