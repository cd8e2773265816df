"""The words and operators of a shell script, before anything is expanded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from attrs import define, frozen

__all__ = ["Array", "Operator", "Piece", "Token", "Word", "find_close", "split_shell"]

_OPERATORS = re.compile(r";;&?|;&|&&|\|\||&>>?|<<<|<<-?|>>|>&|<&|>\||[;&|()<>\n]")
_PLAIN = re.compile(r"[^\s;&|()<>'\"\\$`]+")
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|[0-9@*#?$!-])?")
_ARRAY = re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<plus>\+?)=")
_CLOSING = {"(": ")", "{": "}"}


@frozen
class Piece:
    """Part of a word. Expansions of a plain piece are split into words, those of a double-quoted one are not."""

    text: str
    quote: Literal["", "'", '"'] = ""


@frozen
class Word:
    """A word as it is written."""

    pieces: tuple[Piece, ...]

    @property
    def plain(self) -> str:
        """The text, if nothing is quoted; else nothing, since a quoted word is not a reserved one."""
        return "".join(piece.text for piece in self.pieces) if all(not piece.quote for piece in self.pieces) else ""


@frozen
class Operator:
    """A line break, or a sign such as `;` and `&&`."""

    text: str


@frozen
class Array:
    """An assignment of an array, `NAME=(…)` or `NAME+=(…)`."""

    name: str
    words: tuple[Word, ...]
    is_added: bool


Token = Word | Operator | Array


def split_shell(text: str) -> list[Token]:
    """Return the tokens of a script; raises `ValueError` with the line of a quote or bracket that is never closed."""
    return list(_Lexer(text.replace("\r\n", "\n")).split())


def find_close(text: str, start: int) -> int:
    """Return where the bracket that opens at `start` is closed, past nested ones and quotes; -1 if it never is."""
    waiting = [_CLOSING[text[start]]]
    at = start + 1
    while at < len(text):
        sign = text[at]
        if sign == "\\":
            at += 1
        elif sign == "'" and waiting[-1] != '"':
            at = text.find("'", at + 1)
            if at < 0:
                return -1
        elif sign == waiting[-1]:
            waiting.pop()
            if not waiting:
                return at
        elif sign == '"':
            waiting.append('"')
        elif sign in _CLOSING and (waiting[-1] != '"' or text[at - 1] == "$"):
            waiting.append(_CLOSING[sign])
        at += 1
    return -1


@define(eq=False)
class _Lexer:
    text: str
    at: int = 0

    def split(self) -> Iterator[Token]:
        ends: list[str] = []
        while self._skip_space():
            operator = _OPERATORS.match(self.text, self.at)
            if operator is None:
                yield self._read_word()
                continue
            self.at = operator.end()
            if operator[0] in ("<<", "<<-"):
                self._skip_space()
                ends.append("".join(piece.text for piece in self._read_pieces()))
            elif operator[0] == "\n":
                for end in ends:
                    self._skip_document(end)
                ends = []
            yield Operator(operator[0])

    def _skip_space(self) -> bool:
        """Go to the next token, past blanks and a comment; False at the end."""
        while self.at < len(self.text) and (self.text[self.at] in " \t\r\f\v#" or self.text.startswith("\\\n", self.at)):
            if self.text[self.at] == "\\":
                self.at += 2
            elif self.text[self.at] == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                self.at += 1
        return self.at < len(self.text)

    def _read_word(self) -> Word | Array:
        start = self.at
        found = _ARRAY.match(self.text, start)
        if found is None or self.text[found.end() : found.end() + 1] != "(":
            return Word(tuple(self._read_pieces()))
        self.at = found.end() + 1
        words: list[Word] = []
        while self._skip_space() or self._fail("(", start):
            if self.text[self.at] == ")":
                self.at += 1
                return Array(found["name"], tuple(words), bool(found["plus"]))
            if self.text[self.at] in "\n;&|<>(":
                self.at += 1
                continue
            words.append(Word(tuple(self._read_pieces())))
        raise AssertionError

    def _read_pieces(self) -> Iterator[Piece]:
        while self.at < len(self.text):
            sign = self.text[self.at]
            if sign in " \t\r\f\v\n;&|()<>":
                return
            yield self._read_piece(sign)

    def _read_piece(self, sign: str) -> Piece:
        start = self.at
        if sign == "\\":
            self.at += 2
            escaped = self.text[start + 1 : start + 2]
            return Piece("" if escaped == "\n" else escaped, "'")
        if sign == "'":
            return Piece(self._read_until("'", start), "'")
        if sign == "`":
            return Piece(f"`{self._read_until('`', start)}`")
        if sign == '"':
            return Piece(self._read_double(start), '"')
        if sign == "$" and self.text[start + 1 : start + 2] in ("{", "("):
            end = find_close(self.text, start + 1)
            if end < 0:
                self._fail(self.text[start : start + 2], start)
            self.at = end + 1
            return Piece(self.text[start : self.at])
        found = (_VARIABLE if sign == "$" else _PLAIN).match(self.text, start)
        self.at = max(found.end() if found else 0, start + 1)
        return Piece(self.text[start : self.at])

    def _read_until(self, sign: str, start: int) -> str:
        end = self.text.find(sign, start + 1)
        if end < 0:
            self._fail(sign, start)
        self.at = end + 1
        return self.text[start + 1 : end]

    def _read_double(self, start: int) -> str:
        at = start + 1
        while at < len(self.text) and self.text[at] != '"':
            if self.text[at] == "\\":
                at += 1
            elif self.text[at] == "$" and self.text[at + 1 : at + 2] in ("{", "("):
                end = find_close(self.text, at + 1)
                at = len(self.text) if end < 0 else end
            at += 1
        if at >= len(self.text):
            self._fail('"', start)
        self.at = at + 1
        return self.text[start + 1 : at]

    def _skip_document(self, end: str) -> None:
        while self.at < len(self.text):
            line, _, _ = self.text[self.at :].partition("\n")
            self.at = min(self.at + len(line) + 1, len(self.text))
            if line.strip() == end:
                return

    def _fail(self, sign: str, start: int) -> bool:
        raise ValueError(f"line {self.text.count(chr(10), 0, start) + 1}: {sign} is never closed")
