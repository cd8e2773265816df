"""The tables of an index."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from astuner.shared.private_files import FILE_MODE

VERSION = 2
"""Changes with the tables and with what is in them; an index of another version is made again."""

SPLITS = ("train", "validation")
"""A split is stored as its place here."""

HASH_SIZE = 16 * 2**20
"""Bytes of words that are kept in memory before they are written."""

TABLES = """
CREATE TABLE files(split INTEGER PRIMARY KEY, identity TEXT, head TEXT, tail TEXT, size INTEGER);
CREATE TABLE ranges(split INTEGER, low INTEGER, high INTEGER);
CREATE TABLE settings(name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE damages(split INTEGER, offset INTEGER, PRIMARY KEY(split, offset)) WITHOUT ROWID;
CREATE TABLE cuts(split INTEGER, offset INTEGER, step INTEGER);
CREATE TABLE verdicts(
    rowid INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE, split INTEGER, offset INTEGER, length INTEGER, data TEXT);
CREATE TABLE episodes(
    rowid INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE, place TEXT, split INTEGER, step INTEGER, task TEXT,
    repeat INTEGER, offset INTEGER, length INTEGER, query TEXT, completed INTEGER, reason TEXT, turns INTEGER, calls INTEGER,
    agents TEXT, tokens INTEGER, retried INTEGER, trained INTEGER, duration REAL, findings TEXT, untrained TEXT, owners TEXT,
    reward REAL, success INTEGER, judge_failed INTEGER, judge_reason TEXT, rewards TEXT, components TEXT,
    verdict_offset INTEGER, verdict_length INTEGER, verdict_rowid INTEGER, lost TEXT DEFAULT '[]',
    advantage REAL, advantages TEXT DEFAULT '{}', signal INTEGER DEFAULT 0);
CREATE INDEX episodes_group ON episodes(
    split, step, task, repeat, reward, success, completed, judge_failed, tokens, retried, trained, signal);
CREATE INDEX episodes_task ON episodes(task, split, step);
CREATE VIRTUAL TABLE texts USING fts5(text, content='', tokenize="unicode61 remove_diacritics 2", detail=full);
CREATE VIRTUAL TABLE rationales USING fts5(text, content='', tokenize="unicode61 remove_diacritics 2", detail=full);
"""
"""`ranges` are the parts of a file that are indexed. `findings`, `lost`, `agents` are lists in JSON; `rewards`, `components`,
`advantages` and `untrained` objects of numbers. `episodes_group` holds what sums over many episodes need.
Rows of the texts outlive their episode: a rowid is never used again."""


def open_index(path: Path) -> sqlite3.Connection:
    """Open an index for writing, and make it if there is none; one of another version, or a damaged one, is made again."""
    try:
        return _open(path)
    except sqlite3.DatabaseError:
        delete_index(path)
        return _open(path)


def is_damage(error: Exception) -> bool:
    """Whether an error means that a file is not what SQLite has written."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def delete_index(path: Path) -> None:
    """Delete an index."""
    for name in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        name.unlink(missing_ok=True)


def make_tables(connection: sqlite3.Connection) -> None:
    """Make the tables of an empty index."""
    connection.executescript(f"BEGIN;{TABLES};PRAGMA user_version={VERSION};COMMIT")
    # Larger parts are merged less often.
    connection.execute("INSERT INTO texts(texts, rank) VALUES('hashsize', ?)", (HASH_SIZE,))


def _open(path: Path) -> sqlite3.Connection:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, FILE_MODE))
    connection = sqlite3.connect(path, isolation_level=None, timeout=30)
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, VERSION):
            raise sqlite3.DatabaseError("another version")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA cache_size=-32000")
        if version == 0:
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise sqlite3.DatabaseError("half made")
            make_tables(connection)
    except BaseException:
        connection.close()
        raise
    return connection
