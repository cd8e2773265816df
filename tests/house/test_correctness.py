"""The properties of the training signal each name tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "correctness.md").read_text(encoding="utf-8")
ROWS = [line.split("|")[1:-1] for line in PAGE.splitlines() if line.startswith("| ")][1:]
NAMED = sorted(set(re.findall(r"`([\w./-]+\.py)::(\w+)`", PAGE)))


def test_there_is_a_line_for_each_known_pitfall() -> None:
    assert len(ROWS) >= 17


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip())
def test_every_property_names_a_test(row: list[str]) -> None:
    assert re.search(r"\.py::test_\w+`", row[2])


@pytest.mark.parametrize(("path", "test"), NAMED, ids=lambda part: str(part).rpartition("/")[2])
def test_every_test_that_is_named_exists(path: str, test: str) -> None:
    assert re.search(rf"def {test}\(", (REPOSITORY / path).read_text(encoding="utf-8"))
