"""Limits of processes that run what a model wrote."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
from astuner.shared.processes import set_limit
kind, there, soft, hard = (int(word) for word in sys.argv[1:])
if there:
    resource.setrlimit(kind, (there, there))
set_limit(kind, soft, hard)
print(*resource.getrlimit(kind))
"""


@pytest.mark.parametrize(
    ("there", "soft", "hard", "found"),
    [(0, 100, 105, (100, 105)), (50, 100, 105, (50, 50)), (103, 100, 105, (100, 103)), (200, 100, 105, (100, 105))],
)
def test_a_stricter_limit_that_is_there_stays(there: int, soft: int, hard: int, found: tuple[int, int]) -> None:
    resource = pytest.importorskip("resource")
    words = [str(word) for word in (resource.RLIMIT_CPU, there, soft, hard)]
    said = subprocess.run([sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=True).stdout
    assert tuple(map(int, said.split())) == found
