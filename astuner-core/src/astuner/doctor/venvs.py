"""The virtual environments of backbones that cannot share this one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from astuner.doctor.rows import Row, Status
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.venvs.state import list_states

STATUSES: Mapping[str, Status] = {"in place": "ok", "ready": "ok"}
"""Those that can be used; any other is missing, since only one backbone needs it."""


def venv_rows(catalog: Catalog) -> Iterator[Row]:
    """Yield the environment of each installed backbone that has one."""
    for state in list_states(catalog):
        status = STATUSES.get(state.status, "missing")
        detail = f"{state.status}: {state.directory}" if status == "ok" else state.reason
        detail += f"; it {state.reason}" if status == "ok" and state.reason else ""
        yield Row(area="own environments", what=f"backbone {state.backbone}", status=status, detail=detail, remedy=state.command)
