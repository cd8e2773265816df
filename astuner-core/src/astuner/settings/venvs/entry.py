"""Whether a command has to continue in the environment of its backbone."""

from __future__ import annotations

import os
from collections.abc import Callable

from astuner.contract.errors import UsageError
from astuner.contract.protocols import OwnVenv
from astuner.settings.venvs.process_replacement import ENTERED, EnterVenv
from astuner.settings.venvs.request import SetupRequest
from astuner.settings.venvs.state import examine_venv


def enter(backbone: str, own: OwnVenv, say: Callable[[str], object]) -> None:
    """Raise `EnterVenv` if the backbone has an environment that is ready and is not this one.

    One that is missing or outdated is left to whoever plans the run. Raises `UsageError` if this is the environment, and lacks
    what it is for.
    """
    came_from = os.environ.pop(ENTERED, None)
    state = examine_venv(backbone, own)
    if came_from is not None and state.status != "in place":
        raise UsageError(
            f"{came_from}: is the environment of the backbone '{backbone}', and lacks {own.in_place_with}. Delete it, and then: "
            f"{SetupRequest().format_command(backbone)}"
        )
    if state.status != "ready":
        return
    if state.reason:
        say(f"the environment of the backbone '{backbone}' {state.reason}; {state.command} brings it up to date")
    raise EnterVenv(state.directory.resolve())
