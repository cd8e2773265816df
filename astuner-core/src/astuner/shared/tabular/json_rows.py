"""Rows of a JSON file, read as a stream: one object per line, or one list of objects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from astuner.contract.errors import DataError
from astuner.shared.tabular.strict_json import DECODER, StrictJsonError, parse_json
from astuner.shared.tabular.task_rows import Row
from astuner.shared.tabular.text_lines import BYTE_ORDER_MARK, HEAD_BYTES, check_encoding, decode_line

_CHUNK = 1 << 16
_NO_SPACE = re.compile(r"\S")
_TAIL = 16
"""An error this close to the end of the buffer may only mean that more data must be read."""


def read_json_rows(path: Path) -> Iterator[Row]:
    """Yield the objects of a file with the line on which each begins; blank lines and a byte-order mark are skipped."""
    with path.open("rb") as file:
        if holds_lines(path, file):
            yield from _read_lines(path, file)
            return
    with path.open(encoding="utf-8-sig", newline="") as text:
        yield from _List(path, text).read_rows()


def holds_lines(path: Path, file: BinaryIO) -> bool:
    """Whether an open JSON file is an object per line, and not a list; raises `DataError` if it is UTF-16."""
    head = file.read(HEAD_BYTES)
    check_encoding(path, head)
    file.seek(0)
    return not head.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"[")


def read_json_row(path: Path, offset: int) -> Row:
    """Return a row of a file of JSON lines by its offset, an empty one if the line is blank; raises `DataError`."""
    with path.open("rb") as file:
        file.seek(offset)
        return Row(f"{path}: byte {offset}", _parse_line(path, 1 if offset == 0 else 0, file.readline()) or {}, offset)


def _read_lines(path: Path, file: BinaryIO) -> Iterator[Row]:
    name, offset = str(path), 0
    for number, raw in enumerate(file, 1):
        values = _parse_line(path, number, raw)
        if values is not None:
            yield Row(f"{name}:{number}", values, offset)
        offset += len(raw)


def _parse_line(path: Path, number: int, raw: bytes) -> dict[str, Any] | None:
    """Return the object in a line; None if it is blank."""
    try:
        line = raw.decode()
        value, end = DECODER.scan_once(line, 0)  # type: ignore[attr-defined] # it is not in the stubs
        if type(value) is dict and line[end:] in ("\n", "\r\n", ""):
            return value
    except (StopIteration, ValueError, RecursionError):
        # Blank, spaced, broken: what follows tells these apart.
        pass
    line = decode_line(path, number, raw)
    if line.isspace() or not line:
        return None
    try:
        # Without its line end, else a truncated row is reported in the first column of the next line.
        value = parse_json(line.rstrip("\r\n"))
    except json.JSONDecodeError as error:
        raise _make_error(path, number, error.colno, error.msg, line) from error
    except StrictJsonError as error:
        raise DataError(f"{path}:{number}: {error}") from error
    return _check_object(path, number, value)


class _List:
    """Reads a JSON list object by object, holding one object and a little more in memory."""

    def __init__(self, path: Path, file: TextIO) -> None:
        self._path, self._file = path, file
        self._text, self._at = "", 0
        self._line, self._column = 1, 1
        self._decode = DECODER.raw_decode

    def read_rows(self) -> Iterator[Row]:
        self._next_mark()
        self._advance(self._at + 1)
        if self._next_mark() == "]":
            return
        while True:
            line = self._line
            yield Row(f"{self._path}:{line}", _check_object(self._path, line, self._read_value()))
            mark = self._next_mark()
            if mark not in (",", "]"):
                cut_off = "the list is not closed: the file is cut off"
                raise self._error("expecting ',' or ']' after an object" if mark else cut_off)
            self._advance(self._at + 1)
            follows = self._next_mark()
            if mark == "]":
                if follows:
                    raise self._error("something follows the end of the list")
                return

    def _read_value(self) -> Any:
        size = _CHUNK
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as error:
                certain = error.pos < len(self._text) - _TAIL and not error.msg.startswith("Unterminated")
                if certain or not self._read(size):
                    self._advance(error.pos)
                    raise self._error(error.msg) from error
                size *= 2
            except (ValueError, RecursionError) as error:
                raise DataError(f"{self._path}:{self._line}: {error}") from error
            else:
                self._advance(end)
                return value

    def _next_mark(self) -> str:
        """Advance to the next non-space character and return it; empty at the end of the file."""
        while True:
            found = _NO_SPACE.search(self._text, self._at)
            self._advance(found.start() if found else len(self._text))
            if found:
                return found.group()
            if not self._read(_CHUNK):
                return ""

    def _read(self, size: int) -> bool:
        try:
            more = self._file.read(size)
        except UnicodeDecodeError as error:
            raise DataError(f"{self._path}:{self._line}: not UTF-8 after this line; save the file as UTF-8") from error
        self._text, self._at = self._text[self._at :] + more, 0
        return bool(more)

    def _advance(self, to: int) -> None:
        newlines = self._text.count("\n", self._at, to)
        self._line += newlines
        self._column = to - self._text.rfind("\n", self._at, to) if newlines else self._column + to - self._at
        self._at = to

    def _error(self, message: str) -> DataError:
        return _make_error(self._path, self._line, self._column, message, "")


def _check_object(path: Path, line: int, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        kind = "null" if value is None else type(value).__name__
        raise DataError(
            f'{path}:{line}: this is a {kind}, not an object; each row is one JSON object such as {{"question": "…"}}'
        )
    return value


def _make_error(path: Path, line: int, column: int, message: str, text: str) -> DataError:
    hint = " (JSON writes strings in double quotes)" if text.lstrip().startswith("{'") else ""
    return DataError(f"{path}:{line}:{column}: broken JSON in column {column}: {message}{hint}; fix this line or remove it")
