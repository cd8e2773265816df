"""Count the Python calls in astuner's core from a YAML to the choice of a run directory, and the CPU time they take.

    python benchmarks/planning_calls.py [--by-function]

The second of two runs in one process is counted: of the first, imports are a part.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import astuner
from astuner.runs.driver.run_directories import choose_directory
from astuner.settings.planning.plan import plan_run
from astuner_devkit.project import write_project

CORE = f"{Path(astuner.__file__).parent}/"
REPEATS = 20


def plan(conf: Path) -> None:
    """Do what a run does before it opens its directory."""
    planned = plan_run(conf)
    planned.run_info()
    planned.check_memory()
    choose_directory(planned)


def count_calls(conf: Path) -> Counter[tuple[str, str]]:
    """Return how often each function of core is called, by file and name."""
    calls: Counter[tuple[str, str]] = Counter()

    def record(frame: FrameType, event: str, argument: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(CORE) and frame.f_code.co_name != "<module>":
            calls[file.removeprefix(CORE), frame.f_code.co_qualname] += 1

    sys.setprofile(record)
    try:
        plan(conf)
    finally:
        sys.setprofile(None)
    return calls


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--by-function", action="store_true", help="also print the functions that are called most")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        conf = write_project(Path(directory), "astuner_devkit.judges:ExactAnswer")
        plan(conf)
        calls = count_calls(conf)
        began = time.process_time()
        for _ in range(REPEATS):
            plan(conf)
        spent = (time.process_time() - began) / REPEATS
    print(f"{calls.total():,} calls in {len({file for file, _ in calls})} files, {spent * 1000:.1f} ms of CPU time")
    if options.by_function:
        for (file, name), count in calls.most_common(40):
            print(f"{count:7,}  {file}  {name}")


if __name__ == "__main__":
    main()
