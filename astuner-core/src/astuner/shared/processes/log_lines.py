"""The lines of a program's output that tell a person something."""

from __future__ import annotations

import re

_NOISE = re.compile(
    r"\d+%\|"  # a progress bar
    r"|\b(?:it|s|B)/(?:s|it)\]"  # the end of one
    r"|Warning: |warnings\.warn"
    r"|See stack trace \(?above\)?|[Ss]ee root cause above"
)
_EXCEPTION = re.compile(r"^(?:\([^)]*\)\s*)?(?:[\w.]+\.)?\w*(?:Error|Exception)\b(?:: .*)?$")


def select_telling_lines(text: str, count: int) -> list[str]:
    """Return the last lines without progress bars, warnings and blank lines; if there are exceptions, up to the last of them.

    A program that dies writes its reason and then often goes on: other threads end their bars, and the parent process
    repeats that a child has failed.
    """
    overwritten = (line.rstrip().rpartition("\r")[2] for line in text.split("\n"))
    lines = [line for line in overwritten if line.strip() and not _NOISE.search(line)]
    last = max((number for number, line in enumerate(lines) if _EXCEPTION.match(line)), default=len(lines) - 1)
    return lines[: last + 1][-count:]
