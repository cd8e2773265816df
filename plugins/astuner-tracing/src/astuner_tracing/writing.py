"""Writing a data set so that readers see the whole old one or the whole new one."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO
from uuid import uuid4

from astuner.contract.errors import DataError


class Rows:
    """A file of JSON lines under construction."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.count = 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Write a row."""
        # Lone surrogates cannot be encoded as UTF-8; escapes preserve them.
        text = json.dumps(row, ensure_ascii=False)
        self._file.write((text if text.isprintable() or _is_encodable(text) else json.dumps(row)) + "\n")
        self.count += 1


def check_apart(destinations: Sequence[Path], sources: Sequence[Path]) -> None:
    """Raise `DataError` for a file that would overwrite one being read, or be written twice."""
    for index, path in enumerate(destinations):
        for source in sources:
            if _is_same_file(path, source):
                raise DataError(f"{path}: is one of the sources; write to another file, which no pattern of the sources matches")
        if any(_is_same_file(path, other) for other in destinations[:index]):
            raise DataError(f"{path}: two data sets would be written to this one file; name another for one of them")


def _is_same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        # One of them does not exist yet.
        return one.resolve() == other.resolve()


@contextmanager
def replace_file(path: Path) -> Iterator[Rows]:
    """Yield a writer of rows; the file replaces an earlier one if the block succeeds, and is deleted otherwise."""
    # A unique name: two imports must not write to one file. It begins with a dot, so that `*.jsonl` does not match it.
    beside = path.with_name(f".{path.name}.{uuid4().hex[:12]}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside.open("x", encoding="utf-8") as file:
            yield Rows(file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
