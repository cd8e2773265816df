"""A run in one row of a table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import asdict

from astuner.runs.store.metric_rows import read_curve
from astuner_logview.index.schema import SPLITS
from astuner_logview.library import Library, LibraryRun, find_origin
from astuner_tools.run_summary import REWARD, summarise

MOST_POINTS = 100
Row = dict[str, Any]
Signature = tuple[tuple[int, int], ...]

_rows: dict[Path, tuple[Signature, Row]] = {}
"""What was read of each run, with the sizes and times of its files then."""


def describe_run(library: Library, run: LibraryRun) -> Row:
    """Return the `RunRow` of a run."""
    with run.index.open() as connection:
        count, failed, last = connection.execute(
            "SELECT count(*), coalesce(sum(completed=0 OR judge_failed), 0), max(rowid) FROM episodes"
        ).fetchone()
        indexed = run.index.measure_progress(connection)
    known = last is not None or indexed >= 1.0
    state = run.run.state
    return {
        **_read_row(run),
        "status": state.status,
        "detail": state.detail,
        "episodes": count if known else None,
        "failed": failed if known else None,
        "replay_of": _name_origin(library, run),
        "bytes": sum(run.index.measure_file(split) for split in SPLITS),
        "indexed": indexed,
    }


def thin_out(points: Sequence[tuple[int, float]], most: int = MOST_POINTS) -> list[list[float]]:
    """Return at most so many points of a curve, its ends among them."""
    if len(points) <= most:
        return [list(point) for point in points]
    places = [round(number * (len(points) - 1) / (most - 1)) for number in range(most)]
    return [list(points[place]) for place in dict.fromkeys(places)]


def _read_row(run: LibraryRun) -> Row:
    """Return what changes with the run's small files alone."""
    signature = tuple(_sign(run.path / name) for name in ("run.json", "config.yaml", "metrics.jsonl", "state.json"))
    known = _rows.get(run.path)
    if known is not None and known[0] == signature:
        return known[1]
    summary, facts = summarise(run.run), run.run.facts
    attempts = facts.get("attempts") or [{}]
    model = run.run.config.get("model", {})
    row = {
        **asdict(summary),
        "id": run.id,
        "name": _name(run),
        "path": str(run.path),
        "started": summary.started or None,
        "attempt_started": attempts[-1].get("started"),
        "updated": _find_last_write(run),
        "model": model.get("path") if isinstance(model, dict) else None,
        "curve": thin_out(read_curve(run.run.read_rows(), REWARD)),
    }
    _rows[run.path] = signature, row
    return row


def _name(run: LibraryRun) -> str:
    if run.path.parent.name == "replays":
        return f"{run.path.parent.parent.name} · {run.path.name}"
    return run.run.name


def _name_origin(library: Library, run: LibraryRun) -> str | None:
    origin = find_origin(run)
    if origin is None:
        return None
    return next((one.id for one in library.list_runs() if one.path == origin), origin.name)


def _sign(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return found.st_mtime_ns, found.st_size


def _find_last_write(run: LibraryRun) -> str | None:
    from datetime import UTC, datetime

    names = ("metrics.jsonl", "state.json", "run.json", *(f"episodes/{split}.jsonl" for split in SPLITS))
    times = [os.stat(path).st_mtime for name in names if (path := run.path / name).is_file()]
    return datetime.fromtimestamp(max(times), UTC).isoformat(timespec="seconds") if times else None
