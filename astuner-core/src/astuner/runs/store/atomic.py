"""Writing files so that a reader, or a crash, sees the old content or the new, never half of it."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from astuner.contract.errors import RunFailed
from astuner.contract.plain_values import mend_text
from astuner.shared.private_files import open_private

RESUME = "Nothing that was complete is lost: fix the cause (free space, permissions) and start the same command with --resume"
AGAIN = "Fix the cause (free space, permissions), or name another directory, and start the same command again"
"""For what is not part of a run."""

_FOREIGN = re.compile(r"\(os error (\d+)\)")
"""How Rust's standard library ends the text of an error of the system."""


def write_text(path: Path, text: str, *, private: bool = True) -> None:
    """Replace a file's content by a text in UTF-8."""
    write_bytes(path, text.encode(), private=private)


def write_bytes(path: Path, content: bytes, *, private: bool = True) -> None:
    """Replace a file's content: write a temporary file next to it, fsync, rename. A private one is its user's alone."""
    with explain_os_errors(path):
        beside = path.with_name(path.name + ".part")
        with open_private(beside, "wb") if private else beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        sync_directory(path.parent)


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Replace a file's content by a JSON document."""
    write_text(path, mend_text(json.dumps(data, indent=2, ensure_ascii=False)) + "\n")


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def explain_os_errors(path: Path, *, of_run: bool = True) -> Iterator[None]:
    """Turn an operating system's error while writing `path`, a file of a run or another one, into one with a remedy."""
    try:
        with _translate_foreign_errors():
            yield
    except OSError as error:
        if isinstance(error, FileNotFoundError) and of_run and not path.parent.exists():
            raise RunFailed(
                f"{path}: its directory is gone, and with it what was stored there. Something has deleted or moved it while "
                "the run used it. If it was moved, put it back and start the same command with --resume; if not, start again",
                resumable=True,
            ) from error
        place = error.filename if error.errno == errno.EINVAL and error.filename else path
        raise RunFailed(f"{place}: {error.strerror or error}. {RESUME if of_run else AGAIN}", resumable=of_run) from error


@contextmanager
def _translate_foreign_errors() -> Iterator[None]:
    """Make an `OSError` of what libraries in Rust (tokenizers, safetensors) raise for one, with classes of their own."""
    try:
        yield
    except Exception as error:
        number = None if isinstance(error, OSError) else _FOREIGN.search(str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from error
