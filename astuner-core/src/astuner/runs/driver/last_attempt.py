"""How the attempt before this one ended, if it could not say so itself."""

from __future__ import annotations

from astuner.runs.store.directory import RunDirectory


def describe_last_attempt(directory: RunDirectory) -> str | None:
    """Return a message if the last attempt was killed; None otherwise. Call it while holding the directory's lock."""
    state = directory.state
    if state.get("status") != "running":
        return None
    step = f" after step {state['step']}" if "step" in state else ""
    return (
        f"the last attempt was killed{step} (out of memory, or by a signal), or crashed in native code, "
        "in which case its output ends with the Python lines that were running"
    )
