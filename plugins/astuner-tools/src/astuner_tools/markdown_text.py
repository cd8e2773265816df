"""Texts of a run in Markdown, where nothing in them is markup."""

from __future__ import annotations

import re
from collections.abc import Sequence

LONGEST_TEXT = 3000
"""Characters of one text; the middle of a longer one is left out."""
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_MARKUP = re.compile(r"[\\`*\[\]<>|&~$#]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")


def code(text: str) -> str:
    """Return a text as a code span of one line, whatever backticks it has."""
    text = " ".join(clean(text, 300).split()) or " "
    ticks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if text[0] in "` " or text[-1] in "` " else ""
    # In a table, a bar would end the cell.
    return f"{ticks}{space}{text}{space}{ticks}".replace("|", "\\|")


def fence(text: str, language: str = "") -> str:
    """Return a text as a fenced block that nothing in the text ends."""
    text = clean(text.rstrip(), LONGEST_TEXT)
    ticks = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{ticks}{language}\n{text}\n{ticks}"


def clean(text: str, longest: int) -> str:
    """Return a text without control characters, and without its middle if it is long."""
    text = drop_controls(text)
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters are left out]\n{text[-half:]}"


def drop_controls(text: str) -> str:
    """Return a text without the characters that no page may have."""
    return _CONTROL.sub("�", text.replace("\r\n", "\n"))


def escape_markdown(text: str) -> str:
    """Return a text as one line in which nothing is markup."""
    return re.sub(r"\s+", " ", _MARKUP.sub(r"\\\g<0>", clean(text, LONGEST_TEXT)))


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; its cells are Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))
