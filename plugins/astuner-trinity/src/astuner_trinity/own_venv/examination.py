"""Whether a backbone runs here, in an environment of its own that is ready, or not yet."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Literal

from astuner.contract.errors import UsageError
from astuner.contract.protocols import VenvState
from astuner.shared.install_hints import is_installed
from astuner_trinity.own_venv.locked_venv import LockedVenv
from astuner_trinity.own_venv.record import SetupRecord, read_record
from astuner_trinity.own_venv.request import SetupRequest, plan_setup

PLACE = "ASTUNER_VENVS"
"""The directory with an environment for each backbone; by default `astuner` in the user's environment."""


def find_directory(backbone: str) -> Path:
    """Return where the environment of a backbone is, or would be."""
    root = os.environ.get(PLACE)
    return (Path(root) if root else Path(sys.prefix, "astuner")) / backbone


def find_system_problem(own: LockedVenv) -> str | None:
    """Return why the libraries cannot be installed on this machine; None if they can."""
    here = (sys.platform, platform.machine())
    if not own.systems or here in own.systems:
        return None
    return f"whose libraries exist for {' and '.join(map(' '.join, own.systems))} alone; this is {' '.join(here)}"


def examine_venv(backbone: str, own: LockedVenv) -> VenvState:
    """Return the state of a backbone's environment. Reads metadata only."""
    directory = find_directory(backbone)
    if is_installed(own.in_place_with):
        return VenvState(backbone=backbone, status="in place", directory=Path(sys.prefix))
    if (problem := find_system_problem(own)) is not None:
        return VenvState(backbone=backbone, status="unsupported", directory=directory, reason=problem)
    record = read_record(directory)
    if record is None:
        command = SetupRequest().format_command(backbone)
        return VenvState(
            backbone=backbone, status="missing", directory=directory, reason="which is not set up yet", command=command
        )
    command = record.request.format_command(backbone)
    status, reason = _compare(backbone, own, record)
    return VenvState(backbone=backbone, status=status, directory=directory, reason=reason, command=command)


def format_python() -> str:
    """Return this Python's major and minor version."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _compare(backbone: str, own: LockedVenv, record: SetupRecord) -> tuple[Literal["ready", "outdated"], str]:
    """Return whether an environment can be used, and what has changed since it was made.

    The code of astuner has to be the same in both environments; other packages may differ.
    """
    if record.prefix != sys.prefix:
        return "outdated", f"which was made for {record.prefix}, and this is {sys.prefix}"
    if record.python != format_python():
        return "outdated", f"which has Python {record.python}, and this is {format_python()}"
    try:
        plan = plan_setup(backbone, own, record.request, record.left_out)
        digest = plan.digest
    except (UsageError, OSError) as error:
        return "outdated", f"which can no longer be made as it was: {error}"
    if digest != record.digest:
        return "outdated", "which was made from other requirements"
    if plan.ours != record.ours:
        return "outdated", f"which has other packages of astuner ({', '.join(sorted({*plan.ours} ^ {*record.ours}))})"
    new, gone = sorted({*plan.others} - {*record.others}), sorted({*record.others} - {*plan.others})
    parts = [f"{word} {', '.join(names)}" for word, names in (("lacks", new), ("still has", gone)) if names]
    return "ready", " and ".join(parts)
