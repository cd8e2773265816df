"""Waiting for the trainer with a limit: deaths and silence become errors with the last lines of its logs."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import define, field

from astuner.contract.errors import AstunerError, RunFailed, UsageError
from astuner.shared.processes import select_telling_lines
from astuner_verl.process_environment import SILENCE, SILENCE_S

LOOK_S = 1.0
TELL_S = 15.0
"""Time between two reports on a slow start."""
LINES = 20
RAY_NAMES = re.compile(r"^:(?:actor_name|task_name|job_id):.*\n?", re.MULTILINE)
"""What Ray writes into the log of a process."""


def silence_s() -> float:
    """Return the limit on silence; raises `UsageError` if it is not a number of seconds."""
    text = os.environ.get(SILENCE)
    if text is None:
        return SILENCE_S
    try:
        seconds = float(text)
    except ValueError as error:
        raise UsageError(f"{SILENCE}={text!r}: give seconds, as in {SILENCE}=1800") from error
    if seconds <= 0:
        raise UsageError(f"{SILENCE}={text!r}: give more than 0 seconds, as in {SILENCE}=1800")
    return seconds


@define(eq=False, kw_only=True)
class Watch:
    """Waits for answers of Ray's actors."""

    logs: Path | None
    """The logs of the cluster's processes; None if they are on another machine."""
    resumable: bool = True
    """Whether a failure leaves something to continue from."""
    limit_s: float = field(factory=silence_s)

    def get(self, answer: Any, what: str, say: Callable[[str], None] | None = None) -> Any:
        """Return the result; raises `RunFailed` with the reason if there is none, or nothing happens for too long.

        Any output of the workers counts as activity. `say` reports how long it is taking.
        """
        import ray
        from ray.exceptions import RayActorError, RayError, RayTaskError

        seen, since = self._count_written(), time.monotonic()
        began = told = since
        while True:
            if say is not None and time.monotonic() - told >= TELL_S:
                told = time.monotonic()
                say(f"{what}, {told - began:.0f} s")
            try:
                ready, _ = ray.wait([answer], timeout=LOOK_S)
                if ready:
                    return ray.get(answer)
            except RayTaskError as error:
                cause = _find_cause(error)
                if isinstance(cause, AstunerError):
                    raise cause from None
                if isinstance(cause, RayActorError):
                    raise self._death_error(what, cause) from error
                raise RunFailed(f"{what} failed: {_describe_error(cause)}{self._last_lines()}") from error
            except RayActorError as error:
                raise self._death_error(what, error) from error
            except RayError as error:
                raise RunFailed(f"{what} failed: {_first_line(error)}{self._last_lines()}") from error
            written = self._count_written()
            if written != seen:
                seen, since = written, time.monotonic()
            elif time.monotonic() - since > self.limit_s:
                raise RunFailed(
                    f"{what}: the trainer said nothing for {self.limit_s:g} s, so it is given up. {self._remedy}; {SILENCE} sets "
                    f"another limit{self._last_lines()}",
                    resumable=self.resumable,
                )

    def _death_error(self, what: str, error: BaseException) -> RunFailed:
        died = f"a process of the trainer died ({_first_line(error)})"
        return RunFailed(f"{what} failed: {died}. {self._remedy}{self._last_lines()}", resumable=self.resumable)

    @property
    def _remedy(self) -> str:
        kept = "Finished episodes are kept: continue with --resume"
        return kept if self.resumable else "Nothing is written; start again"

    def _count_written(self) -> int:
        if self.logs is None:
            return 0
        total = 0
        for file in self.logs.glob("worker-*"):
            try:
                total += file.stat().st_size
            except OSError:
                continue
        return total

    def _last_lines(self) -> str:
        """Return the last lines of the process that wrote last; empty without its log."""
        if self.logs is None:
            return ""
        files = []
        for file in self.logs.glob("worker-*.err"):
            try:
                files.append((file.stat().st_mtime, file))
            except OSError:
                continue
        for _, file in sorted(files, reverse=True):
            text = file.read_text(encoding="utf-8", errors="replace")
            if lines := select_telling_lines(RAY_NAMES.sub("", text), LINES):
                return f". The last lines of {file.name}:\n" + "\n".join(lines)
        return ""


def _find_cause(error: Any) -> BaseException:
    """Return the original exception: Ray wraps it in an error for each actor that it passed."""
    cause: BaseException = error
    while isinstance(inner := getattr(cause, "cause", None), BaseException):
        cause = inner
    return cause


def _describe_error(cause: BaseException) -> str:
    """Return an exception in one line."""
    text = str(cause).strip()
    last = text.splitlines()[-1] if "Traceback" in text or "ray::" in text else text.partition("\n")[0]
    return last if type(cause).__name__ in last else f"{type(cause).__name__}: {last}"


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
