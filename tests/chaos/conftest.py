from __future__ import annotations

from collections import Counter
from typing import Any

from run_fixtures import cli, project, python_server, quickstart, separate_cli

__all__ = ["cli", "project", "python_server", "quickstart", "separate_cli"]

OF_MANY = "test_a_fault_at_a_moment"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Write how many faults were tried, and how many runs ended, and went on, as they have to; each of its own kind."""
    tried, survived = Counter[str](), Counter[str]()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.stats.get(outcome, ()):
            if report.when == "call" and "/chaos/" in report.nodeid:
                name, _, parameters = report.nodeid.rpartition("::")[2].partition("[")
                kind = parameters.partition("-")[0] if name == OF_MANY else name.removeprefix("test_").replace("_", " ")
                tried[kind] += 1
                survived[kind] += outcome == "passed"
    rows = [*sorted(tried.items()), ("in all", tried.total())]
    for kind, count in rows if tried else ():
        well = survived[kind] if kind in tried else survived.total()
        terminalreporter.write_line(f"| {kind.replace('_', ' ')} | {count} | {well} | {count - well} |")
