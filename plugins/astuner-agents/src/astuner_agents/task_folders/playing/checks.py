"""Whether the tasks of a run can be played in its sandboxes, before anything of it starts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from astuner.contract.errors import AstunerError, DataError
from astuner.contract.protocols import RunInfo, Sandboxes
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.drivers import load
from astuner_agents.task_folders.folder import TaskFolder
from astuner_agents.task_folders.playing.errors import TaskNotPlayable
from astuner_agents.task_folders.playing.needs import check_variables, plan_play

PLAYING = ("astuner_agents:Command", "astuner_agents.harbor:Oracle", "astuner_agents.harbor:TaskFolderWorkflow")
"""The workflows that play task folders."""
SHOWN = 10
"""Reasons that are shown; the others are counted."""


def find_sandboxes(run_info: RunInfo) -> type[Sandboxes] | None:
    """Return the class of the sandboxes in which the run plays its tasks; None if another workflow does it, or none is known."""
    config = run_info.config
    # Paths of a module may be written as `module->Class` too.
    if (config.rollout.user_workflow or "").replace("->", ":").replace(" ", "") not in PLAYING:
        return None
    try:
        catalog = Catalog.discover(disabled=config.plugins.disabled, kinds=("sandbox",))
        key = "astuner.sandbox.type"
        found = load(catalog.find("sandbox", config.sandbox.type, config_dir=run_info.config_dir, key=key))
    except AstunerError:
        # Reported where the sandboxes of the run are chosen.
        return None
    return cast("type[Sandboxes]", found)


def check_playable(folders: Iterable[TaskFolder], sandboxes: type[Sandboxes]) -> None:
    """Raise `DataError` with all tasks that cannot be played, and why."""
    reasons = []
    for folder in folders:
        try:
            plan_play(folder, sandboxes)
            check_variables(folder)
        except TaskNotPlayable as error:
            reasons.append(str(error))
    if reasons:
        left = f"\nand {len(reasons) - SHOWN} more" if len(reasons) > SHOWN else ""
        raise DataError("tasks cannot be played:\n" + "\n".join(reasons[:SHOWN]) + left)
