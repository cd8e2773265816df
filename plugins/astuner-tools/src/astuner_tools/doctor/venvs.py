"""The virtual environments of backbones that cannot share this one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from astuner.contract.errors import PluginError
from astuner.contract.protocols import BackboneTraits, VenvState, read_traits
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.drivers import load
from astuner_tools.doctor.rows import Row, Status


def venv_rows(catalog: Catalog) -> Iterator[Row]:
    """Yield the environment of each installed backbone that has one; broken plugins have rows of their own."""
    for candidate in catalog.candidates("backbone"):
        with suppress(PluginError):
            if (own := read_traits(load(candidate), BackboneTraits).own_venv) is not None:
                yield _make_row(own.examine(candidate.name))


def _make_row(state: VenvState) -> Row:
    detail = f"{state.status}: {state.directory}" if state.is_usable else state.reason
    detail += f"; it {state.reason}" if state.is_usable and state.reason else ""
    # Not a failure: only one backbone needs it.
    status: Status = "ok" if state.is_usable else "missing"
    return Row(area="own environments", what=f"backbone {state.backbone}", status=status, detail=detail, remedy=state.command)
