"""What the commands of `astuner plugin` print about a component."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from astuner.contract.errors import Problem, UsageError
from astuner.settings.config.structure_errors import find_closest
from astuner.settings.plugins.core_commands import CORE_COMMANDS, find_lost_group, format_typed

if TYPE_CHECKING:
    from astuner.contract.protocols import Candidate
    from astuner.settings.plugins.catalog import Catalog


def find_kind(text: str, command: str) -> str:
    """Return the kind that a user means, in the singular or the plural; raises `UsageError` naming all kinds."""
    from astuner.settings.plugins.kinds import KINDS, parse_kind

    try:
        return parse_kind(text)
    except KeyError as error:
        message = f"{command}: no kind {text!r}; there are: {', '.join(KINDS)}."
        raise UsageError(str(Problem(message=message, suggestion=find_closest(text, KINDS)))) from error


def describe_component(candidate: Candidate, catalog: Catalog) -> dict[str, Any]:
    """Return what is known about a component without importing it here; `catalog` holds the others of its kind."""
    from astuner.settings.plugins.compat import find_incompatibility

    return {
        "kind": candidate.kind,
        "name": candidate.name,
        "dist": candidate.dist,
        "version": candidate.version,
        "target": candidate.target,
        "core_requirement": candidate.core_requirement,
        "missing": list(candidate.missing),
        "remedy": candidate.remedy,
        "problem": find_incompatibility(candidate) or _find_lost_command(candidate),
        "conflicts": _find_conflicts(candidate, catalog),
    }


def describe_status(row: Mapping[str, Any]) -> str:
    """Return `ok`, or every fault with its remedy."""
    faults = [str(row["problem"])] if row["problem"] else []
    if row["missing"]:
        faults.append(f"lacks {', '.join(row['missing'])}: {row['remedy']}")
    if row["conflicts"]:
        name = f"{row['dist']}/{row['name']}"
        written = format_typed(name) if row["kind"] == "command" else name
        faults.append(f"{', '.join(row['conflicts'])} offers '{row['name']}' too: write {written}")
    return "; ".join(faults) or "ok"


def _find_lost_command(candidate: Candidate) -> str | None:
    """Return why a command cannot be typed; None if it can."""
    group = find_lost_group(candidate.name) if candidate.kind == "command" and candidate.source == "entry_point" else None
    return group and f"astuner-core has no group of commands '{group}' that others add to"


def _find_conflicts(candidate: Candidate, catalog: Catalog) -> list[str]:
    """Return the other distributions that offer the name for the kind."""
    if candidate.source == "path":
        return []
    others = [c.provider for c in catalog.candidates(candidate.kind) if c.name == candidate.name and c != candidate]
    return [*(["astuner-core"] if candidate.kind == "command" and candidate.name in CORE_COMMANDS else []), *others]
