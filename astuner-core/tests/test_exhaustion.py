from __future__ import annotations

import errno
from pathlib import Path

import pytest

from astuner.contract.errors import RunFailed, UsageError
from astuner.settings.config.pretrained import guard_loading
from astuner.shared.exhaustion import explain_exhaustion


class OutOfMemoryError(RuntimeError):
    """As torch calls that of a GPU."""


@pytest.mark.parametrize(
    ("error", "missing"),
    [
        (MemoryError(), "memory"),
        (OutOfMemoryError("CUDA: tried to allocate 2 GiB"), "memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 188928 bytes"), "memory"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "memory"),
        (RuntimeError("can't start new thread"), "threads"),
        (OSError(errno.EMFILE, "Too many open files"), "file descriptors"),
    ],
)
def test_what_the_machine_has_no_more_of_is_named_with_the_way_on(error: Exception, missing: str) -> None:
    with pytest.raises(RunFailed, match=f"has no more {missing} for this run.*--resume"), explain_exhaustion():
        raise error


@pytest.mark.parametrize("error", [RuntimeError("odd"), OSError(errno.EIO, "I/O error"), UsageError("memory"), KeyError("x")])
def test_any_other_error_passes(error: Exception) -> None:
    with pytest.raises(type(error)) as found, explain_exhaustion():
        raise error
    assert found.value is error


def test_it_is_not_the_fault_of_a_model_that_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="has no more threads"), explain_exhaustion(), guard_loading(tmp_path):
        raise RuntimeError("can't start new thread")
