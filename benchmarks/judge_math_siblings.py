"""CPU seconds of 256 siblings for the judge `math`: `python benchmarks/judge_math_siblings.py`, on Linux.

Its child processes are included. Each row is a group whose answers are all expensive in one way, and all different.
Target: at most 10 s, whatever they are.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from rich.console import Console
from rich.table import Table

from astuner.contract.schema import Task, WorkflowOutput, WorkflowTask
from astuner_judges import MathAnswerAsJudge

SIBLINGS = 256
ANSWERS: dict[str, tuple[str, Callable[[int], str]]] = {
    "a tower, the same": ("2", lambda _: r"\boxed{9999999999^{9999999999}}"),
    "towers": ("2", lambda i: rf"\boxed{{9999999999^{{{9999999999 + i}}}}}"),
    "sums that sympy computes": ("x", lambda i: rf"\boxed{{\sum_{{k=1}}^{{{99999999 + i}}} \frac{{\sin(k)}}{{k^2+1}}}}"),
    "products of sums": ("x", lambda i: "\\boxed{" + "".join(rf"(x+{j + i}y+\sqrt{{{j}}})^{{9}}" for j in range(2, 30)) + "}"),
    "nested roots": ("2", lambda i: "\\boxed{" + r"\sqrt{2+" * 60 + str(i + 2) + "}" * 60 + "}"),
    "integrals": ("x", lambda i: rf"\boxed{{\int_0^{i + 1} \frac{{\sin(x^3+{i})}}{{\sqrt{{1+x^7}}}} dx}}"),
    "plain expressions": ("x+1", lambda i: rf"\boxed{{x+{i + 2}}}"),
    "50,000 characters of digits": ("2", lambda i: f"{i}" + "7" * 50_000),
    "50,000 dollar signs": ("2", lambda i: f"{i}" + "$" * 50_000),
    "formulas without end": ("2", lambda i: f"so ${i}x$ and " * 3_000),
    "boxes": ("2", lambda i: rf"\boxed{{{i}" * 6_000),
    "markers": ("2", lambda i: f"The answer is {i}x. " * 2_500),
    "fractions": ("2", lambda i: rf"\frac{{{i}" * 6_000),
    "brackets": ("2", lambda i: "(" * 25_000 + str(i) + ")" * 25_000),
    "powers": ("2", lambda i: f"{i}^" * 16_000),
    "spaces": ("2", lambda i: f"{i}" + " \n" * 25_000 + "x"),
    "numbers in brackets": ("(1,2)", lambda i: "(" + "1," * 20_000 + f"{i})"),
    "digits of another script": ("2", lambda i: "٤" * 50_000 + str(i)),
    "gamma": ("2", lambda i: rf"\boxed{{\Gamma({99999999 + i})}}"),
    "one sentence": ("2", lambda i: f"x {i} y = 3 z " * 3_500),
}


def adopt_children() -> None:
    """Have workers whose parent has ended counted among the children of this process."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def reap_children() -> None:
    """Wait until the last child has ended: only then is its CPU time known."""
    try:
        while True:
            os.wait()
    except ChildProcessError:
        return


def measure(name: str) -> tuple[float, float]:
    """Return the CPU and wall seconds of a group."""
    adopt_children()
    gold, make = ANSWERS[name]
    judge = MathAnswerAsJudge(MathAnswerAsJudge.Options(symbolic=True))
    task = WorkflowTask(Task("How much is it for 16 eggs?", metadata={"answer": gold}))
    start, before = time.monotonic(), time.process_time()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: judge.compute_reward(task, WorkflowOutput(metadata={"final_answer": make(i)})), range(SIBLINGS)))
    judge.close()
    reap_children()
    own = time.process_time() - before
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own + children.ru_utime + children.ru_stime, time.monotonic() - start


def main() -> None:
    """Measure each group in a process of its own, whose children are then those of the group."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=sorted(ANSWERS), help="measure one group, in this process")
    only = parser.parse_args().only
    if only is not None:
        print(*measure(only))
        return
    table = Table("answers", "CPU s", "wall s", title=f"judge math, {SIBLINGS} siblings")
    for name in ANSWERS:
        run = subprocess.run([sys.executable, __file__, "--only", name], capture_output=True, text=True, check=True)
        cpu_s, wall_s = map(float, run.stdout.split())
        table.add_row(name, f"{cpu_s:.1f}", f"{wall_s:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
