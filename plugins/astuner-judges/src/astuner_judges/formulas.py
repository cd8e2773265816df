"""Formulas in a sentence that are not numbers: set aside as one character each, so that no number is read out of them."""

from __future__ import annotations

import re
from collections.abc import Callable

from attrs import frozen

FIRST_MARK = 0xE000
_MOST = 200
_FORMULA = re.compile(
    r"""
    (?<!\\)\$\$([^$]{1,2000}?)\$\$
  | \\\((.{1,2000}?)\\\)
  | \\\[(.{1,2000}?)\\\]
  | (?<![\\$\w])\$(?!\$)((?:[^$\n\\]|\\.){1,2000}?)(?<![=+*/-])\$(?![0-9$<]|\.[0-9])
    """,
    re.VERBOSE | re.DOTALL,
)
_PRIVATE = re.compile(r"[\ue000-\uf8ff]")
_COMMAND = re.compile(r"\\(?:text\w*|mathrm|mbox|begin|end|operatorname)\s*\{[^{}]*\}|\\[A-Za-z]+")
_WORD = re.compile(r"[A-Za-z]{3}")
_SPACED_MINUS = re.compile(r"^(\$\$?|\\[(\[])\s*-\s+")
_SYMBOL = re.compile(r"[\s{}]*(?:\\?[A-Za-z]+)[\s{}]*")


@frozen
class MarkedText:
    """A text in which formulas are replaced."""

    text: str
    formulas: tuple[str, ...] = ()


def find_formulas(text: str) -> list[str]:
    """Return the formulas of a text, without the signs around them."""
    return [found for match in _FORMULA.finditer(text) if (found := _read(match))]


def set_formulas_aside(text: str, is_number: Callable[[str], bool]) -> MarkedText:
    """Replace every formula that is not a number and not a lone symbol."""
    if not text.isascii():
        text = _PRIVATE.sub(" ", text)
    if "\\" not in text and text.count("$") < 2:
        return MarkedText(text)
    formulas: list[str] = []

    def mark(match: re.Match[str]) -> str:
        content = _read(match)
        if content is None or len(formulas) >= _MOST or _SYMBOL.fullmatch(content) or is_number(content):
            return _SPACED_MINUS.sub(r"\1-", match[0])
        formulas.append(content)
        return chr(FIRST_MARK + len(formulas) - 1)

    return MarkedText(_FORMULA.sub(mark, text), tuple(formulas))


def _read(match: re.Match[str]) -> str | None:
    """Return what is in a formula; None if the signs around it are of dollars."""
    content = next(part for part in match.groups() if part is not None)
    if match[4] is not None:
        spaced = content[0].isspace() or content[-1].isspace()
        if (spaced and "\\" not in content and len(content.strip()) > 20) or _WORD.search(_COMMAND.sub(" ", content)):
            return None
        if spaced and content[0].isspace() is not content[-1].isspace() and "\\" not in content:
            return None
    return content.strip() or None
