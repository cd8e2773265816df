"""A directory that is whole or absent."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from astuner.contract.errors import UsageError
from astuner.runs.store.atomic import explain_os_errors, sync_directory


def check_free(out: Path) -> None:
    """Raise `UsageError` if something is there that would be overwritten."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"--out {out}: exists and is not an empty directory; name another one")


@contextmanager
def make_beside(out: Path) -> Iterator[Path]:
    """Yield an empty directory next to `out`, which is removed with everything in it at the end, however that comes."""
    with explain_os_errors(out, of_run=False):
        out.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent.resolve()))
    try:
        yield beside
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def move_into_place(made: Path, out: Path) -> None:
    """Give a finished directory its name; raises `UsageError` if something else took the name meanwhile."""
    check_free(out)
    with explain_os_errors(out, of_run=False):
        made.rename(out)
        sync_directory(out.resolve().parent)
