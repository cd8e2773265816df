"""What the tests of Terminal-Bench print: which of them have passed."""

from __future__ import annotations

import re
from collections.abc import Mapping

from astuner_agents.task_folders.playing.errors import VerificationFailed

SUMMARY = re.compile(r"^=+ *short test summary info *=+$", re.IGNORECASE | re.MULTILINE)
PASSED = frozenset({"PASSED", "SKIPPED", "XFAIL"})
FAILED = frozenset({"FAILED", "ERROR", "XPASS"})
BLOCKS = {
    "swebench": ("SWEBench results", "PASSED"),
    "sweperf": ("SWE-Perf results", "PASSED"),
    "mlebench": ("MLEBench results", "ALL TESTS PASSED"),
}
"""By parser: what begins and ends a block of the output, and what stands in it if all tests have passed."""


def parse_output(parser: str, text: str) -> Mapping[str, bool]:
    """Return whether each test has passed; raises `VerificationFailed` if the output does not show it."""
    if parser == "pytest":
        return _parse_pytest(text)
    if parser not in BLOCKS:
        known = ", ".join(("pytest", *BLOCKS))
        raise VerificationFailed(f"output for the parser '{parser}' cannot be read; it can for {known}")
    name, passed = BLOCKS[parser]
    match = re.search(rf"{name} starts here(.*){name} ends here", text, re.DOTALL)
    if match is None:
        raise VerificationFailed(f"the tests did not print '{name} starts here' and '{name} ends here'")
    return {"tests": match[1].strip() == passed}


def _parse_pytest(text: str) -> Mapping[str, bool]:
    """Read the short summary, which pytest prints with `-rA`."""
    # What a test itself prints comes before the summary.
    summaries = SUMMARY.split(text)
    if len(summaries) < 2:
        raise VerificationFailed("the tests did not print pytest's short summary (pytest -rA)")
    found: dict[str, bool] = {}
    for line in summaries[-1].splitlines():
        status, _, rest = line.strip().partition(" ")
        status = status.rstrip(":")
        if status in PASSED | FAILED and rest.strip():
            name = rest.split(" - ", 1)[0].strip().partition("::")
            found[name[2] or name[0]] = status in PASSED
    if not found:
        raise VerificationFailed("the short summary of pytest names no test")
    return found
