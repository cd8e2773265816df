"""What the commands of `astuner plugin` print of a component."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from astuner.plugins.catalog import Candidate

as_json = click.option("--json", "in_json", is_flag=True, help="One JSON document on stdout.")


def row_of(candidate: Candidate) -> dict[str, Any]:
    """Return what is known of a component without importing it."""
    from astuner.plugins.compat import incompatibility

    return {
        "kind": candidate.kind,
        "name": candidate.name,
        "dist": candidate.dist,
        "version": candidate.version,
        "target": candidate.target,
        "core_requirement": candidate.core_requirement,
        "missing": list(candidate.missing),
        "remedy": candidate.remedy,
        "problem": incompatibility(candidate),
    }


def status_of(row: Mapping[str, Any]) -> str:
    """Return `ok`, or what is wrong with it and the command that mends it."""
    if row["problem"]:
        return str(row["problem"])
    return f"lacks {', '.join(row['missing'])}: {row['remedy']}" if row["missing"] else "ok"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as a table of left-aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
