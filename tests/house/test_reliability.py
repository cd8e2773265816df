"""The page of faults names tests that exist, for every fault."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "reliability.md").read_text(encoding="utf-8")
PATHS = sorted(set(re.findall(r"`((?:astuner-core|plugins|tests)/[\w./-]+\.py)`", PAGE)))
ROWS = [line.split("|")[1:-1] for line in PAGE.splitlines() if line.count("|") == 4 and not line.startswith(("|-", "|---"))]


@pytest.mark.parametrize("path", PATHS)
def test_every_file_that_is_named_has_tests(path: str) -> None:
    assert "def test_" in (REPOSITORY / path).read_text(encoding="utf-8")


def test_every_fault_names_a_file_of_tests() -> None:
    faults = [row for row in ROWS if row[2].strip() != "tests"]
    assert len(faults) > 20
    assert [row[0] for row in faults if ".py`" not in row[2]] == []


def test_security_names_the_tests_of_leaks() -> None:
    page = (REPOSITORY / "SECURITY.md").read_text(encoding="utf-8")
    paths = re.findall(r"`(plugins/[\w./-]+\.py)`", page)
    assert "plugins/astuner-loggers/tests/test_leaks.py" in paths
    assert [path for path in paths if not (REPOSITORY / path).is_file()] == []
