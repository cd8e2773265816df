"""Reading another program's SQLite database without writing to it or next to it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from astuner.contract.errors import DataError


@contextmanager
def open_database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database for reading, as it is now. Raises `DataError` if it is broken or cannot be read."""
    log = path.with_name(path.name + "-wal")
    # Reading a write-ahead database that no process has open would leave two files next to it, unless it is opened as
    # immutable. If a process opens it meanwhile, its log shows that.
    still = _is_write_ahead(path) and not log.exists()
    where = f"file:{quote(str(path.resolve()))}?mode=ro{'&immutable=1' if still else ''}"
    try:
        with closing(sqlite3.connect(where, uri=True, timeout=30)) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute("BEGIN")
            yield connection
    except sqlite3.Error as error:
        raise DataError(f"{path}: {error}; copy it with `sqlite3 FILE '.backup COPY'` and name the copy") from error
    if still and log.exists():
        raise DataError(f"{path}: another program opened it while it was read; import it again, or read the server in its place")


def list_tables(path: Path) -> set[str]:
    """Return the names of its tables."""
    with open_database(path) as connection:
        return {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")}


def list_columns(connection: sqlite3.Connection, table: str) -> set[str]:
    """Return the names of a table's columns; none if it does not exist."""
    return {str(row["name"]) for row in connection.execute(f"PRAGMA table_info({table})")}


def find_inode(path: Path) -> tuple[int, int] | None:
    """Return the identity of a file, whatever its name; None without a file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _is_write_ahead(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(20)[18:20] == b"\x02\x02"
