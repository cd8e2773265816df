"""What of a run cannot be shown."""

from __future__ import annotations

from astuner_logview.index.schema import SPLITS
from astuner_logview.library import LibraryRun

MOST = 20
"""Damaged lines that are named."""


def list_problems(run: LibraryRun) -> list[str]:
    """Return what of a run could not be read, each once."""
    with run.index.open() as connection:
        damaged = connection.execute("SELECT split, offset FROM damages ORDER BY 1, 2 LIMIT ?", (MOST + 1,)).fetchall()
    texts = [
        f"episodes/{SPLITS[split]}.jsonl: the line at byte {offset} is damaged and left out: it was an episode, or verdicts"
        for split, offset in damaged[:MOST]
    ]
    if len(damaged) > MOST:
        texts.append("episodes: more lines are damaged and left out")
    return list(dict.fromkeys([*run.problems, *texts]))
