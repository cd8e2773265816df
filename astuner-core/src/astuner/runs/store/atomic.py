"""Writing files and directories so that a reader, or a crash, sees the old content or the new, never half of it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from astuner.contract.errors import RunFailed, UsageError
from astuner.contract.plain_values import mend_text
from astuner.shared.private_files import open_private

RESUME = "Nothing that was complete is lost: fix the cause (free space, permissions) and start the same command with --resume"
AGAIN = "Fix the cause (free space, permissions), or name another directory, and start the same command again"
"""For what is not part of a run."""

_BESIDE = ".unfinished"
"""How the names of hidden directories end in which something is made."""
_FOREIGN = re.compile(r"\(os error (\d+)\)")
"""How Rust's standard library ends the text of an error of the system."""


def write_text(path: Path, text: str, *, private: bool = True) -> None:
    """Replace a file's content by a text in UTF-8."""
    write_bytes(path, text.encode(), private=private)


def write_bytes(path: Path, content: bytes, *, private: bool = True) -> None:
    """Replace a file's content by way of a temporary one. A private one is its user's alone; of others, links are followed."""
    with explain_os_errors(path, of_run=private):
        if not private and path.exists() and not path.is_file():
            path.write_bytes(content)
            return
        path = path if private else path.resolve()
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


def check_free(out: Path) -> None:
    """Raise `UsageError` if something is there that would be overwritten; what a killed command left is deleted."""
    if out.is_dir():
        _delete_leftovers(out)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"--out {out}: exists and is not an empty directory; name another one")


@contextmanager
def write_directory(out: Path) -> Iterator[Path]:
    """Yield an empty directory that becomes `out`, whole and with the access that the umask gives; an error leaves nothing."""
    with explain_os_errors(out, of_run=False), make_beside(out) as beside:
        made = beside / "made"
        made.mkdir()
        yield made
        move_into_place(made, out)


@contextmanager
def make_beside(out: Path) -> Iterator[Path]:
    """Yield a hidden directory for what becomes `out`; it is removed at the end, after a kill by the next call."""
    check_free(out)
    with explain_os_errors(out, of_run=False):
        place = _choose_place(out)
        place.mkdir(parents=True, exist_ok=True)
        _delete_leftovers(place)
        beside = Path(tempfile.mkdtemp(prefix=f".{out.resolve().name}.", suffix=_BESIDE, dir=place))
        handle = os.open(beside, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield beside
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        os.close(handle)


def move_into_place(made: Path, out: Path) -> None:
    """Give a finished directory its name, and its files ordinary access; raises `UsageError` if the name was taken meanwhile."""
    with explain_os_errors(out, of_run=False):
        mode = made.stat().st_mode & 0o666
        for path in made.rglob("*"):
            if not path.is_symlink():
                path.chmod(mode | path.stat().st_mode)
        inside = _choose_place(out) == out.resolve()
        if not inside:
            check_free(out)
            made.rename(out.resolve())
        # A model without its configuration is none.
        for path in sorted(made.iterdir(), key=lambda path: path.name.endswith("config.json")) if inside else ():
            path.rename(out / path.name)
        sync_directory(out.resolve().parent)


def _choose_place(out: Path) -> Path:
    """Return the directory that can hold what becomes `out`: `out` itself where it cannot be replaced by another directory."""
    target = out.resolve()
    stays = target.is_dir() and (target.is_mount() or target == Path.cwd() or not os.access(target.parent, os.W_OK))
    return target if stays else target.parent


def _delete_leftovers(place: Path) -> None:
    """Delete hidden directories whose process has ended: a living one holds a lock on its own."""
    for beside in place.glob(f".*.????????{_BESIDE}"):
        with suppress(OSError):
            handle = os.open(beside, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(beside, ignore_errors=True)
            finally:
                os.close(handle)


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
        if not of_run and not path.parent.is_dir():
            raise UsageError(f"{path}: there is no directory {path.parent}; make it, or name another one") from error
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
