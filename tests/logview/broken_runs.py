"""Directories that are not a whole run: torn, half deleted, foreign."""

from __future__ import annotations

import shutil
from pathlib import Path


def write_torn_run(whole: Path, path: Path) -> None:
    """Copy a run; a line of its episodes is overwritten, and the last lines of its files are cut short."""
    shutil.copytree(whole, path)
    episodes = path / "episodes/train.jsonl"
    lines = episodes.read_bytes().splitlines(keepends=True)
    lines[1] = b'{"crc":"00000000"' + lines[1][17:]
    lines[4] = b"\xff\x00 not JSON\n"
    episodes.write_bytes(b"".join(lines) + b'{"crc":"12345678","kind":"epis')
    metrics = path / "metrics.jsonl"
    metrics.write_bytes(metrics.read_bytes() + b'not a row\n{"step": 9, "ki')


def write_half_deleted_runs(whole: Path, directory: Path) -> None:
    """Make three runs of which one file or folder each is left: the episodes, the metrics, the record."""
    for name, left in (("only episodes", "episodes"), ("only metrics", "metrics.jsonl"), ("only a record", "run.json")):
        path = directory / name
        path.mkdir(parents=True)
        if (whole / left).is_dir():
            shutil.copytree(whole / left, path / left)
        else:
            shutil.copy(whole / left, path / left)


def write_foreign_directory(path: Path) -> None:
    """Make a directory of another program that uses the same names for other things."""
    (path / "episodes").mkdir(parents=True)
    (path / "config.yaml").write_text("- a list")
    (path / "metrics.jsonl").write_text('[1, 2]\n{"epoch": 1, "loss": 0.3}\n"text"\n')
    (path / "run.json").write_text('["not", "an", "object"]')
    (path / "state.json").write_bytes(b"\x80\x04\x95pickle")
    (path / "episodes/train.jsonl").write_bytes(bytes(range(256)) * 40)


def write_directory_of_directories(path: Path) -> None:
    """Make a directory that has one in the place of a run's file."""
    (path / "config.yaml").mkdir(parents=True)
    (path / "run.json").write_text("{}")
