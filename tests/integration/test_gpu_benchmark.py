"""The benchmark for GPUs runs on the CPU with a tiny shape, and prints its table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu" / "training.py"
SIZES = ("--steps=1", "--tasks=2", "--repeats=3", "--tokens=6", "--turns=2")


def test_it_prints_one_table() -> None:
    command = [sys.executable, SCRIPT, "--backbone=local", "--shape", "tiny", *SIZES]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    head, _, names, _, row = ended.stdout.splitlines()
    assert head.startswith("local on ")
    values = dict(zip(names.strip("| ").split(" | "), row.strip("| ").split(" | "), strict=True))
    assert (values["shape"], values["GPUs"], values["MFU"]) == ("tiny", "1", "-")
    # The engine samples from all of the vocabulary, as the trainer does.
    assert float(values["mismatch"]) < 1e-3
