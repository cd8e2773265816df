"""Finding what an address names in the index of a run."""

from __future__ import annotations

import sqlite3

from astuner_logview.errors import BadRequest, Missing
from astuner_logview.index.schema import SPLITS
from astuner_logview.library import LibraryRun

CUT_OFF = "it may have been cut off when the run was resumed; look at the list"


def find_row(run: LibraryRun, identity: str) -> sqlite3.Row:
    """Return the row of an episode; raises `Missing`."""
    with run.index.open() as connection:
        found: sqlite3.Row | None = connection.execute("SELECT * FROM episodes WHERE id=?", (identity,)).fetchone()
        if found is None:
            raise explain_missing(run, connection, f"episode '{identity[:200]}'")
    return found


def find_group(run: LibraryRun, split: str, step: int, task: str) -> list[sqlite3.Row]:
    """Return the rows of all siblings, by repeat; raises `Missing` if there is none."""
    if split not in SPLITS:
        raise BadRequest(f"split: '{split[:40]}' is not a split", "give train or validation")
    with run.index.open() as connection:
        found = connection.execute(
            "SELECT * FROM episodes WHERE split=? AND step=? AND task=? ORDER BY repeat, place", (SPLITS.index(split), step, task)
        ).fetchall()
        if not found:
            raise explain_missing(run, connection, f"group of the task '{task[:200]}' in step {step} of {split}")
    return found


def explain_missing(run: LibraryRun, connection: sqlite3.Connection, what: str, remedy: str = CUT_OFF) -> Missing:
    """Return why something is not in the index: it may come while episodes are still read, else `remedy` says what to do."""
    indexed = run.index.measure_progress(connection)
    if indexed < 1:
        return Missing(f"there is no {what} yet", f"the episodes are being read ({indexed:.0%}): look again in a moment")
    return Missing(f"there is no {what} in this run", remedy)
