"""Text for a terminal: colours, width, the length of long texts, and durations."""

from __future__ import annotations

import os
import re
import shutil
import textwrap
from collections.abc import Mapping
from typing import TextIO

from attrs import frozen

COLOURS: Mapping[str, str] = {
    "title": "1",
    "speaker": "36",
    "reasoning": "2;3",
    "trained": "32",
    "untrained": "33",
    "tokens": "2",
    "good": "1;32",
    "bad": "1;31",
}
"""SGR codes by kind of text."""

WIDEST = 160
"""Longer lines are hard to read, even on a wide terminal."""


def strip_colours(text: str) -> str:
    """Return a text without its colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@frozen(kw_only=True)
class Page:
    """The format of transcripts."""

    colour: bool = False
    width: int | None = None
    """Lines are wrapped at this width; None leaves them unchanged."""
    longest: int | None = None
    """Characters of one message that are shown; the middle of a longer one is omitted. None shows all."""

    @classmethod
    def of(cls, stream: TextIO, *, longest: int | None = None) -> Page:
        """Return the page for a stream: colours and wrapping on a terminal (`NO_COLOR` is respected), plain text elsewhere."""
        if not stream.isatty():
            return cls(longest=longest)
        width = min(shutil.get_terminal_size().columns, WIDEST)
        return cls(colour="NO_COLOR" not in os.environ, width=width, longest=longest)

    def paint(self, text: str, kind: str | None) -> str:
        """Return the text in the colour of its kind, line by line."""
        if not self.colour or kind is None:
            return text
        return "\n".join(f"\x1b[{COLOURS[kind]}m{line}\x1b[0m" if line else line for line in text.split("\n"))

    def shorten(self, text: str) -> str:
        """Return the text, with the middle of a long one replaced by a note of its length."""
        if self.longest is None or len(text) <= self.longest:
            return text
        head, tail = self.longest * 2 // 3, self.longest // 3
        return f"{text[:head]} [... {len(text) - head - tail:,} characters ...] {text[-tail:]}"

    def block(self, lead: str, text: str, *, indent: int, kind: str | None = None, lead_kind: str | None = None) -> str:
        """Return a lead and a text whose further lines are indented."""
        margin = " " * indent
        lines = []
        for number, line in enumerate(text.split("\n")):
            first = len(lead) if number == 0 else indent
            lines += self._wrap(line, first, indent)
        body = f"\n{margin}".join(self.paint(line, kind) for line in lines)
        return self.paint(lead, lead_kind) + body

    def _wrap(self, line: str, first: int, indent: int) -> list[str]:
        if self.width is None or len(line) + max(first, indent) <= self.width:
            return [line]
        width = max(self.width, indent + 20)
        parts = textwrap.wrap(
            " " * first + line,
            width,
            subsequent_indent=" " * indent,
            replace_whitespace=False,
            drop_whitespace=False,
            break_on_hyphens=False,
        )
        return [parts[0][first:], *(part[indent:] for part in parts[1:])]


def format_seconds(seconds: float) -> str:
    """Return a duration as `42 s`, `3 min 5 s` or `2 h 7 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
