"""The directory of a run that begins, and what an earlier attempt has left in it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from astuner.contract.protocols import BackboneTraits
from astuner.contract.protocols.traits import read_traits
from astuner.runs.store.directory import RunDirectory, get_throwaway_directory

if TYPE_CHECKING:
    from astuner.settings.planning.plan import Plan


def choose_directory(plan: Plan) -> Path:
    """Return the run directory; a throwaway run has its own, next to the one that is kept."""
    path = Path(plan.loaded.config.experiment_dir)
    return get_throwaway_directory(path, plan.backbone.candidate.name) if is_throwaway(plan) else path


def is_throwaway(plan: Plan) -> bool:
    """Whether the backbone's runs are for one look: the next begins from nothing."""
    from astuner.settings.plugins.drivers import load

    return read_traits(load(plan.backbone.candidate), BackboneTraits).throwaway


def delete_leftovers(directory: RunDirectory) -> None:
    """Delete what an earlier run has left that this one would continue or add to."""
    for leftover in (directory.state_file, directory.metrics, *directory.episodes.glob("*.jsonl")):
        leftover.unlink(missing_ok=True)


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


def shorten_path(path: Path) -> str:
    """Return a path as it is typed in the working directory."""
    return shlex.quote(str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path))
