"""An episode in one row of a table."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from astuner_logview.index.schema import SPLITS


def describe_row(row: sqlite3.Row, snippet: list[list[Any]] | None = None) -> dict[str, Any]:
    """Return the `EpisodeRow` of a row of the index."""
    return {
        "id": row["id"],
        "split": SPLITS[row["split"]],
        "step": row["step"],
        "task": row["task"],
        "repeat": row["repeat"],
        "reward": row["reward"],
        "success": None if row["success"] is None else bool(row["success"]),
        "advantage": row["advantage"],
        "completed": bool(row["completed"]),
        "reason": row["reason"],
        "judge_failed": bool(row["judge_failed"]),
        "turns": row["turns"],
        "calls": row["calls"],
        "agents": json.loads(row["agents"]),
        "tokens": row["tokens"],
        "trained": row["trained"],
        "duration_s": row["duration"],
        "findings": json.loads(row["findings"]),
        "lost": json.loads(row["lost"]),
        "query": row["query"],
        "snippet": snippet,
    }
