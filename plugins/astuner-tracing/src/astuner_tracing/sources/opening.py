"""From the user's name of a source to its records."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from astuner.contract.errors import DataError
from astuner_tracing.records import Record
from astuner_tracing.sources.access import Access
from astuner_tracing.sources.otlp_file import OtlpFile
from astuner_tracing.sources.phoenix_database import PhoenixDatabase
from astuner_tracing.sources.phoenix_server import PhoenixServer
from astuner_tracing.sources.sqlite_file import find_inode, list_tables
from astuner_tracing.sources.studio_database import StudioDatabase

_SQLITE = b"SQLite format 3\x00"


class Source(Protocol):
    """One place with traces."""

    name: str
    """As the user named it; stored with the tasks as their source."""
    kind: str
    """Its description, for people."""

    @property
    def path(self) -> Path | None:
        """The file, if it is one."""
        ...

    @property
    def inode(self) -> tuple[int, int] | None:
        """The identity of the file when it was opened, whatever its name is now; None before that."""
        ...

    def records(self) -> Iterator[Record]:
        """Yield spans and annotations as a stream. Raises `DataError` when it cannot be read at all."""
        ...


def open_sources(names: Sequence[str], base: Path, access: Access) -> list[Source]:
    """Return the sources that the names mean. A pattern with `*` means the files it matches, in alphabetical order.

    Raises `DataError` for a name that does not exist or is not a source; records are not read yet.
    """
    return [source for name in names for source in _open(name, base, access)]


def find_new_sources(names: Sequence[str], base: Path, access: Access, read: Sequence[Source]) -> list[Source]:
    """Return the files that patterns match now and that were not read under any name: logs are rotated."""
    known = {source.inode for source in read}
    found = [one for name in names if _is_pattern(name, base) for one in _list_matches(name, base)]
    new = [one for one in found if (inode := find_inode(base / Path(one).expanduser())) is not None and inode not in known]
    return [source for one in new for source in _open(one, base, access)]


def _is_pattern(name: str, base: Path) -> bool:
    is_address = name.startswith(("http://", "https://"))
    return not is_address and glob.has_magic(name) and not (base / Path(name).expanduser()).exists()


def _list_matches(name: str, base: Path) -> list[str]:
    return [_relative(one, name, base) for one in sorted(glob.glob(str(base / Path(name).expanduser())))]


def _open(name: str, base: Path, access: Access) -> list[Source]:
    if name.startswith(("http://", "https://")):
        return [PhoenixServer(name, access)]
    path = base / Path(name).expanduser()
    if _is_pattern(name, base):
        found = _list_matches(name, base)
        if not found:
            raise DataError(f"source '{name}': no file matches it (from {base})")
        return [source for one in found for source in _open(one, base, access)]
    if not path.is_file():
        what = "is a directory; name the files in it, as in 'traces/*.jsonl'" if path.is_dir() else "does not exist"
        raise DataError(f"source '{name}': {path} {what}")
    try:
        with path.open("rb") as file:
            head = file.read(len(_SQLITE))
    except OSError as error:
        raise DataError(f"source '{name}': {path} cannot be read: {error.strerror or error}") from error
    if head != _SQLITE:
        return [OtlpFile(name, path)]
    tables = list_tables(path)
    if "span_table" in tables:
        return [StudioDatabase(name, path)]
    if {"spans", "traces"} <= tables:
        return [PhoenixDatabase(name, path, access.project)]
    raise DataError(
        f"source '{name}': a database without the tables of AgentScope Studio (span_table) or Phoenix (spans, traces); "
        f"it has: {', '.join(sorted(tables)[:12]) or 'none'}"
    )


def _relative(found: str, pattern: str, base: Path) -> str:
    """Name a file found by a pattern as the user would: relative if the pattern was."""
    if Path(pattern).expanduser().is_absolute():
        return found
    return str(Path(found).relative_to(base)) if Path(found).is_relative_to(base) else found
