"""The file that the collector appends to: whole lines only, one writer, synced at intervals, rotated by size."""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from astuner.contract.errors import UsageError


class TraceFile:
    """Appends documents to a file. Thread-safe; another process that opens the same file is refused."""

    def __init__(self, path: Path, *, rotate_bytes: int | None, sync_s: float) -> None:
        """Open the file for appending. A line that an earlier writer left incomplete is ended, so that it spoils no other."""
        self.path = path
        self._rotate_bytes, self._sync_s = rotate_bytes, sync_s
        self._lock = threading.Lock()
        self._synced = time.monotonic()
        self._dirty = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._guard = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError(f"--out {path}: cannot be written: {error.strerror or error}") from error
        try:
            fcntl.flock(self._guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._guard)
            raise UsageError(f"--out {path}: another collector writes to it; name another file, or end that one") from error
        try:
            self._file = self._open(path)
        except OSError as error:
            os.close(self._guard)
            raise UsageError(f"--out {path}: cannot be written: {error.strerror or error}") from error

    def append(self, document: Mapping[str, Any]) -> None:
        """Write a document as one line. Raises `OSError` when it cannot be written; the file is then unchanged."""
        line = json.dumps(document, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
        with self._lock:
            size = os.fstat(self._file).st_size
            if self._rotate_bytes is not None and size and size + len(line) > self._rotate_bytes:
                self._rotate()
                size = os.fstat(self._file).st_size
            try:
                left = memoryview(line)
                while left:
                    left = left[os.write(self._file, left) :]
            except OSError:
                os.ftruncate(self._file, size)
                raise
            self._dirty = True
            if time.monotonic() - self._synced >= self._sync_s:
                self._sync()

    def sync(self) -> None:
        """Make what was written survive a crash of the machine."""
        with self._lock:
            self._sync()

    def close(self) -> None:
        """Sync and close."""
        with self._lock:
            self._sync()
            os.close(self._file)
            os.close(self._guard)

    def _sync(self) -> None:
        if self._dirty:
            os.fsync(self._file)
        self._dirty, self._synced = False, time.monotonic()

    def _rotate(self) -> None:
        """Give the full file the next free number, `traces.0001.jsonl`, and start a new one; on failure keep appending to it."""
        self._sync()
        beside = self.path.with_name(f".{self.path.name}.new")
        try:
            new = self._open(beside)
        except OSError:
            return
        number = 1
        while (older := self.path.with_name(f"{self.path.stem}.{number:04}{self.path.suffix}")).exists():
            number += 1
        try:
            self.path.rename(older)
            try:
                beside.rename(self.path)
            except OSError:
                older.rename(self.path)
                raise
        except OSError:
            os.close(new)
            return
        self._file, old = new, self._file
        os.close(old)

    def _open(self, path: Path) -> int:
        # Users' questions and feedback are private.
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            os.write(file, b"\n")
        return file
