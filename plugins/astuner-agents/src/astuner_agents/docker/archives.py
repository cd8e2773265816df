"""Files into a container and out of it, as the archives of the Docker API."""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from astuner_agents.sandboxes import compile_patterns

MOST_FILES = 100_000
"""Files that are looked at for patterns."""
WILD = "*?"


def pack_directories(directories: Mapping[str, tuple[int, int, int]]) -> bytes:
    """Return an archive of directories, by absolute path, with mode, user and group."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, (mode, uid, gid) in directories.items():
            info = _describe(path.lstrip("/"), mode, uid, gid)
            info.type = tarfile.DIRTYPE
            archive.addfile(info)
    return buffer.getvalue()


def pack_files(files: Mapping[str, bytes], uid: int, gid: int) -> bytes:
    """Return an archive of files and the directories around them, by relative path; one that begins with `#!` can be run."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        parents = {str(parent) for name in files for parent in PurePosixPath(name).parents} - {"."}
        for name in sorted(parents):
            info = _describe(name, 0o755, uid, gid)
            info.type = tarfile.DIRTYPE
            archive.addfile(info)
        for name, content in files.items():
            info = _describe(name, 0o755 if content.startswith(b"#!") else 0o644, uid, gid)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def list_roots(patterns: Sequence[str]) -> Sequence[str]:
    """Return the entries of the working directory that can hold a match; `.` if it can be any of them.

    No link is followed to one, as the entries are in the working directory itself.
    """
    roots = [pattern.removeprefix("./").partition("/")[0] for pattern in patterns]
    if any(root in ("", "..") or any(wild in root for wild in WILD) for root in roots):
        return ["."]
    return sorted(set(roots))


def unpack_matches(chunks: Iterable[bytes], root: str, patterns: Sequence[str], max_bytes: int) -> Mapping[str, bytes]:
    """Return the regular files of an archive that match, by path, as long as they fit into `max_bytes` in all.

    `root` is what was asked for: the working directory (`.`) or an entry of it. Links are left out; a hard link has the content
    of the file that it is a link to, if that matches too.
    """
    matches = compile_patterns(patterns)
    found: dict[str, bytes] = {}
    left, linked = max_bytes, dict[str, bytes]()
    with tarfile.open(fileobj=io.BufferedReader(_Chunks(chunks)), mode="r|") as archive:
        for count, member in enumerate(archive):
            if count > MOST_FILES:
                break
            # The first name is that of the directory itself.
            path = member.name if root != "." else member.name.partition("/")[2]
            if not path or not (member.isreg() or member.islnk()) or not _is_text(path) or not matches(path):
                continue
            content = linked.get(member.linkname) if member.islnk() else _read(archive, member, left)
            if content is not None and len(content) <= left:
                found[path] = linked[member.name] = content
                left -= len(content)
    return found


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo, most: int) -> bytes | None:
    file = archive.extractfile(member) if member.size <= most else None
    return None if file is None else file.read()


def _describe(name: str, mode: int, uid: int, gid: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.mode, info.uid, info.gid, info.mtime = mode, uid, gid, int(time.time())
    return info


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


class _Chunks(io.RawIOBase):
    """Chunks of bytes, as a file."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks: Iterator[bytes] = iter(chunks)
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override] # its stub allows any buffer
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = chunk
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count
