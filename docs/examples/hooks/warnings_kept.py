"""Listens: keeps warnings for the end of the run. A notice may come from any thread, so a lock guards the list."""

from __future__ import annotations

import sys
import threading

from astuner import hookimpl
from astuner.contract.schema import Notice


class WarningsKept:
    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._texts: list[str] = []

    @hookimpl
    def astuner_notice(self, notice: Notice) -> None:
        if notice.level == "warning":
            with self._lock:
                self._texts.append(notice.text)

    @hookimpl
    def astuner_run_finished(self) -> None:
        with self._lock:
            texts = list(self._texts)
        for text in texts:
            print(f"warnings_kept: {text}", file=sys.stderr)
