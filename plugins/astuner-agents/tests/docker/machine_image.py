"""An image of programs of this machine: a shell, small tools, Python's standard library, and the libraries that they need."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from astuner_agents.docker.daemon import Daemon

TOOLS = (
    *("sh", "cat", "chmod", "cp", "dd", "echo", "env", "find", "grep", "head", "id", "ln", "ls", "mkdir", "mkfifo", "mv"),
    *("printf", "ps", "rm", "seq", "setsid", "sleep", "sort", "stat", "tail", "tee", "touch", "tr", "true", "wc"),
)
DIRECTORIES = ("tmp", "proc", "dev", "sys", "etc", "root", "bin")
NOT_NEEDED = {"test", "idlelib", "lib2to3", "tkinter", "ensurepip", "site-packages", "__pycache__", "turtledemo"}
IMAGE = "astuner-tests:machine"
WITHOUT_INTERPRETER = "astuner-tests:tools"


def import_image(daemon: Daemon, name: str = IMAGE, *, with_python: bool = True, env: tuple[str, ...] = ()) -> str:
    """Give the image to a daemon, and return its name."""
    changes = ["ENV PATH=/usr/local/bin:/usr/bin:/bin", *(f"ENV {one}" for one in env)]
    params: dict[str, Any] = {"repository": name.partition(":")[0], "tag": name.partition(":")[2], "changes": changes}
    daemon.api.import_image_from_data(_pack(with_python=with_python), **params)
    return name


def _pack(*, with_python: bool) -> bytes:
    files: dict[str, Path] = {}
    for tool in TOOLS:
        if found := shutil.which(tool, path="/bin:/usr/bin"):
            files |= _with_libraries(f"/usr/bin/{tool}", Path(found))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in DIRECTORIES:
            _add(archive, name, tarfile.DIRTYPE, mode=0o1777 if name == "tmp" else 0o755)
        if with_python:
            python = Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))
            files |= _with_libraries("/usr/local/bin/python3", python)
            for path, inside in _list_library():
                files |= _with_libraries(inside, path) if path.suffix == ".so" else {inside: path}
        for inside, path in files.items():
            archive.add(path.resolve(), inside.lstrip("/"), recursive=False, filter=_give_to_root)
        _add(archive, "bin/sh", tarfile.SYMTYPE, link="/usr/bin/sh")
        _add(archive, "bin/true", tarfile.SYMTYPE, link="/usr/bin/true")
    return buffer.getvalue()


def _list_library() -> Iterator[tuple[Path, str]]:
    """Return the files of the standard library, with their places below the prefix /usr/local."""
    library = Path(os.__file__).parent
    for folder, names, found in os.walk(library):
        names[:] = [name for name in names if name not in NOT_NEEDED]
        for name in found:
            path = Path(folder, name)
            yield path, f"/usr/local/lib/{library.name}/{path.relative_to(library)}"


def _with_libraries(inside: str, path: Path) -> dict[str, Path]:
    said = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=False).stdout
    libraries = re.findall(r"(?:=> )?(/\S+) \(0x", said)
    return {inside: path, **{_place(library): Path(library) for library in libraries}}


def _place(library: str) -> str:
    """Return where the loader of the image finds a library."""
    return library if "/ld-" in library else f"/lib/x86_64-linux-gnu/{Path(library).name}" if "/lib" in library else library


def _give_to_root(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.mode |= 0o444
    return info


def _add(archive: tarfile.TarFile, name: str, kind: bytes, *, mode: int = 0o755, link: str = "") -> None:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.linkname, info.mtime = kind, mode, link, int(time.time())
    archive.addfile(info)
