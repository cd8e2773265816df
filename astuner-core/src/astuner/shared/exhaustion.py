"""Errors of a machine that has no more of something: memory, threads, file descriptors."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from astuner.contract.errors import AstunerError, RunFailed, describe_error

_NUMBERS = {errno.EMFILE: "file descriptors", errno.ENFILE: "file descriptors", errno.ENOMEM: "memory"}
_WORDS = {"allocate memory": "memory", "out of memory": "memory", "start new thread": "threads"}
"""Libraries raise a RuntimeError of which only the text says it: torch on a CPU, and Python for threads."""
_REMEDIES = {
    "memory": "free memory, or need less: `astuner run --dry-run` shows what the run holds and the keys that matter",
    "threads": "raise the limits on processes and memory (`ulimit -u`, `ulimit -v`)",
    "file descriptors": "raise the limit (`ulimit -n`), or lower rollout.max_env_worker",
}


@contextmanager
def explain_exhaustion() -> Iterator[None]:
    """Turn such an error into a `RunFailed` that says what is missing and how to continue."""
    try:
        yield
    except Exception as error:
        missing = find_exhausted(error)
        if missing is None:
            raise
        raise RunFailed(
            f"the machine has no more {missing} for this run: {describe_error(error)}. Nothing that was complete is lost: "
            f"{_REMEDIES[missing]}, and start the same command with --resume",
            resumable=True,
        ) from error


def find_exhausted(error: Exception) -> str | None:
    """Return what an error says there is no more of; None if it says nothing of the kind."""
    if isinstance(error, AstunerError):
        return None
    if isinstance(error, MemoryError) or any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__):
        return "memory"
    if isinstance(error, OSError):
        return _NUMBERS.get(error.errno or 0)
    if isinstance(error, RuntimeError):
        return next((missing for words, missing in _WORDS.items() if words in str(error)), None)
    return None
