"""Making the environment of a backbone: the lock's versions, and what the user has installed."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from astuner.contract.errors import UsageError
from astuner_trinity.own_venv.examination import PLACE, find_directory, format_python
from astuner_trinity.own_venv.locked_venv import LockedVenv
from astuner_trinity.own_venv.record import SetupRecord, delete_record
from astuner_trinity.own_venv.request import SetupRequest
from astuner_trinity.own_venv.resolution import resolve_setup
from astuner_trinity.own_venv.uv import run_uv


def set_up(
    backbone: str, own: LockedVenv, request: SetupRequest, directory: Path | None, say: Callable[[str], object]
) -> tuple[Path, int]:
    """Make or update an environment; returns where it is and how many packages it has.

    With a `directory` it is made there, and linked from the place where it is looked for. Raises `UsageError` if the user's
    requirements and the backbone's exclude each other, and `RunFailed` if the installation fails; the next call continues it.
    """
    with tempfile.TemporaryDirectory() as work:
        resolution = resolve_setup(backbone, own, request, Path(work), say)
        home = _prepare_place(backbone, directory)
        delete_record(home)
        python = home / "bin" / "python"
        if not _is_same_python(home):
            say(f"making {home}")
            run_uv("venv", "--quiet", "--clear", "--python", sys.executable, home)
        folders = [package.name for package in resolution.plan.packages if package.is_folder]
        rebuilt = [word for name in folders for word in ("--reinstall-package", name)]
        run_uv("pip", "sync", resolution.pins, "--python", python, *rebuilt)
        plan, left_out = resolution.plan, resolution.left_out
        SetupRecord(
            prefix=sys.prefix,
            python=format_python(),
            digest=plan.digest,
            ours=plan.ours,
            others=plan.others,
            left_out=left_out,
            request=request,
        ).write(home)
        return home, len(resolution.packages)


def _prepare_place(backbone: str, directory: Path | None) -> Path:
    """Return the environment's directory, linked from where it is looked for."""
    link = find_directory(backbone)
    try:
        link.parent.mkdir(parents=True, exist_ok=True)
        if directory is None:
            link.mkdir(exist_ok=True)
            return link.resolve()
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()) and not (directory / "pyvenv.cfg").is_file():
            raise UsageError(f"--dir {directory}: is not empty and not a virtual environment; name another directory")
        if link.resolve() != directory.resolve():
            if link.is_dir() and not link.is_symlink():
                raise UsageError(f"--dir {directory}: {link} holds an environment already; delete it to have it elsewhere")
            link.unlink(missing_ok=True)
            link.symlink_to(directory.resolve(), target_is_directory=True)
        return directory.resolve()
    except OSError as error:
        raise UsageError(
            f"{error.filename or link}: cannot be made: {error.strerror}. Set {PLACE} to a directory for environments of "
            "backbones, now and when you run them"
        ) from error


def _is_same_python(home: Path) -> bool:
    if not (home / "bin" / "python").exists():
        return False
    return (home / "lib" / f"python{format_python()}").is_dir()
