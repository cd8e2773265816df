"""The examples in `docs/api.md` run, are short, and show every module that the page lists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from harness import REPOSITORY

from astuner.moved_modules import read_moved
from astuner_devkit.public_api import public_modules

PAGE = (REPOSITORY / "docs" / "api.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
MOVES = re.findall(r"^\| `(astuner\.[\w.]+)` \| `([\w.]+)` \|$", PAGE.partition("## Where modules went")[2], re.MULTILINE)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs_and_is_short(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "docs/api.md", "exec"), {"__name__": "example"})
    assert len([line for line in example.splitlines() if line.strip()]) <= 8


def test_every_module_is_in_an_example() -> None:
    shown = set(re.findall(r"^(?:from|import) ([\w.]+)", "\n".join(EXAMPLES), re.MULTILINE))
    assert sorted({*public_modules()} - shown) == []
    assert sorted(name for name in shown if name.partition(".")[0] == "astuner" and name not in public_modules()) == []


def test_the_page_says_where_every_module_went() -> None:
    assert dict(MOVES) == read_moved()
