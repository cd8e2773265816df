"""Patterns of paths: `*` and `?` within a name, `**` for any number of directories."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence


def compile_patterns(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Return what says whether a relative path matches one of the patterns."""
    compiled = [re.compile(_translate(pattern.removeprefix("./"))) for pattern in patterns]
    return lambda path: any(one.fullmatch(path) for one in compiled)


def _translate(pattern: str) -> str:
    pieces = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    known = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "(?s)" + "".join(known.get(piece) or re.escape(piece) for piece in pieces)
