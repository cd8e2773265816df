"""The backbone imports light, and so does what plans a run."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "ray", "verl", "trinity", "transformers", "vllm", "omegaconf")


@pytest.mark.parametrize("module", ["backbone", "native_configuration", "process_environment", "spool", "driver"])
def test_what_the_driver_needs_imports_nothing_heavy(module: str) -> None:
    code = f"import sys, astuner_trinity.{module}; print([name for name in {HEAVY} if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.stdout.strip() == "[]", ended.stderr
