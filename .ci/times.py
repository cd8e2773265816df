"""Writes the table of the environments in CONTRIBUTING from the log of a run of CI.

    python .ci/times.py LOG

What each environment tests is its description in `tox.ini`. An environment that the log does not have, since nothing reached it,
keeps its figures.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from reach import REPOSITORY, read_environments

PAGE = REPOSITORY / "CONTRIBUTING.md"
HEAD = "| environment | what it tests | tests | minutes |\n|---|---|---|---|\n"
TABLE = re.compile(rf"{re.escape(HEAD)}(?:\|.*\n)*")
ROW = re.compile(r"^\| `([\w-]+)` \|.*\| ([\d,]*) ?\| ([\d.]*) ?\|$", re.MULTILINE)
TOOK = re.compile(r"^ +([\w-]+): OK \(([\d.]+)[=s ]", re.MULTILINE)
COUNTED = re.compile(r"^tests of ([\w-]+): (\d+)$", re.MULTILINE)


def write_table(page: str, log: str = "") -> str:
    """Return the page with the figures of a log in its table."""
    tests = {name: count for name, count, _ in ROW.findall(page)} | {name: f"{int(n):,}" for name, n in COUNTED.findall(log)}
    minutes = {name: took for name, _, took in ROW.findall(page)} | {
        name: f"{float(s) / 60:.1f}" for name, s in TOOK.findall(log)
    }
    rows = [
        f"| `{name}` | {environment.description} | {tests.get(name, '')} | {minutes.get(name, '')} |\n"
        for name, environment in read_environments().items()
    ]
    return TABLE.sub(lambda _: HEAD + "".join(rows), page)


if __name__ == "__main__":
    log = Path(sys.argv[1]).read_text(encoding="utf-8")
    PAGE.write_text(write_table(PAGE.read_text(encoding="utf-8"), log), encoding="utf-8")
