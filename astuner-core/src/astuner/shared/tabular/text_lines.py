"""The lines of a text file, decoded one by one, so that errors name the line."""

from __future__ import annotations

from pathlib import Path

from astuner.contract.errors import DataError

HEAD_BYTES = 1 << 16
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def check_encoding(path: Path, head: bytes) -> None:
    """Raise `DataError` for a file that looks like UTF-16 or UTF-32, with or without a byte-order mark."""
    if head.startswith(_UTF16_MARKS) or b"\0" in head[:4]:
        raise DataError(f"{path}: the file is UTF-16 or UTF-32, not UTF-8; save it as UTF-8: iconv -f UTF-16 -t UTF-8")


def decode_line(path: Path, number: int, raw: bytes) -> str:
    """Return the text of a line, counted from 1, without a byte-order mark; raises `DataError` if it is not UTF-8."""
    try:
        return raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}:{number}: byte {error.start + 1} of the line is not UTF-8; save the file as UTF-8") from error
