"""Writing a data set so that whoever reads it sees the old one or the new one, whole."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from astuner.errors import DataError


class Rows:
    """A file of JSON lines in the making."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.count = 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Write a row."""
        # Half a surrogate pair has no UTF-8; as an escape it is kept.
        text = json.dumps(row, ensure_ascii=False)
        self._file.write((text if text.isprintable() or _encodes(text) else json.dumps(row)) + "\n")
        self.count += 1


@contextmanager
def replaced(path: Path) -> Iterator[Rows]:
    """Yield rows to write; the file takes the place of an earlier one when the block ends well, and is gone otherwise."""
    beside = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("w", encoding="utf-8") as file:
            yield Rows(file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
