"""What recording every trained token costs: `python benchmarks/token_record.py [--project DIR] [--steps 40] [--rounds 6]`.

One process makes the same run of the quickstart's project with `trainer_common.token_record` on and off, by turns. CPU seconds
are those of all threads, from loading the model to the end; the first pair warms up and is not counted. The share is that of
the functions that keep, sort and write the values, in the CPU seconds of the runs with a record: it does not depend on how
evenly the machine works, as the ratio does.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import torch
from rich.console import Console
from rich.table import Table

import astuner
import astuner_local.trainer.step
from astuner.runs.training.token_recorder import TokenRecorder
from astuner_local.trainer.token_record import TokenRecord

RECORDING = ((astuner_local.trainer.step, "stack_token_values"), (TokenRecord, "read"), (TokenRecorder, "record"))
"""The functions that only a run with a record calls."""


def count_cpu(owner: Any, name: str, spent: list[float]) -> None:
    """Let a function add the CPU seconds of each call to `spent`."""
    function: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(function)
    def counted(*args: Any, **options: Any) -> Any:
        before = time.thread_time()
        try:
            return function(*args, **options)
        finally:
            spent.append(time.thread_time() - before)

    setattr(owner, name, counted)


def measure(project: Path, records: Path, *, steps: int, kept: bool, number: int) -> tuple[float, float, int]:
    """Return the CPU seconds of a run, the trained tokens, and the bytes of their record."""
    name = f"{number}-{kept}"
    overrides = {
        "experiment_name": name,
        "experiment_dir": str(records / name),
        "trainer_common.total_training_steps": steps,
        "trainer_common.val_before_train": False,
        "trainer_common.test_freq": -1,
        "trainer_common.save_freq": -1,
        "trainer_common.logger": [],
        "trainer_common.token_record.enable": kept,
    }
    before = time.process_time()
    run = astuner.run(project / "tune.yaml", overrides, backbone="local")
    seconds = time.process_time() - before
    tokens = sum(row.get("tokens/trained", 0) for row in run.read_rows())
    return seconds, tokens, sum(file.stat().st_size for file in run.directory.trained_tokens.glob("*.npz"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--project", type=Path, help="made by `astuner quickstart DIR --no-run`; by default a new one")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as home:
        project = options.project
        if project is None:
            project = Path(home, "project")
            subprocess.run([sys.executable, "-m", "astuner", "quickstart", str(project), "--no-run"], check=True)
        pairs, spent = [], list[float]()
        for owner, name in RECORDING:
            count_cpu(owner, name, spent)
        for number in range(options.rounds + 1):
            # Each of both comes first in half of the rounds.
            order = (True, False) if number % 2 else (False, True)
            found = {kept: measure(project, Path(home), steps=options.steps, kept=kept, number=number) for kept in order}
            pairs.append((found[False][0], found[True][0]))
            tokens, size = found[True][1:]
            if number == 0:
                spent.clear()
    off, on = (statistics.median(pair[side] for pair in pairs[1:]) for side in (0, 1))
    ratio = statistics.median(with_record / without for without, with_record in pairs[1:])
    share = sum(spent) / sum(with_record for _, with_record in pairs[1:])
    names = ("steps", "trained tokens", "bytes a token", "CPU s without", "CPU s with", "ratio", "share of the record")
    table = Table(*names, title="token record")
    numbers = (f"{tokens:.0f}", f"{size / tokens:.1f}", f"{off:.2f}", f"{on:.2f}", f"{ratio:.3f}", f"{share:.2%}")
    table.add_row(str(options.steps), *numbers)
    Console().print(table)


if __name__ == "__main__":
    main()
