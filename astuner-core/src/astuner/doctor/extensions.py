"""The extensions of every run: those that cannot be loaded, or whose hooks cannot work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from astuner.doctor.rows import Row
from astuner.plugins.catalog import Catalog


def extension_rows(catalog: Catalog, options: Mapping[str, Mapping[str, Any]]) -> Iterator[Row]:
    """Yield whether all extensions load as in a run, or the problem of each that does not."""
    from astuner.plugins.hooks import Hooks

    found = catalog.candidates("hook")
    problems = Hooks(catalog, on_listener_error=lambda _: None, options=options).problems
    remedy = "fix or uninstall it, or list it in plugins.disabled"
    for problem in problems:
        yield Row(area="extensions", what=problem.key or "hook", status="broken", detail=str(problem), remedy=remedy)
    if not problems:
        listed = ", ".join(f"{candidate.name} ({candidate.provider})" for candidate in found)
        yield Row(area="extensions", what="hooks", detail=listed or "none installed")
