"""Which installed backbone makes the tiny model: the run's own, or else another."""

from __future__ import annotations

from typing import Any

from astuner.contract.errors import AstunerError, UsageError
from astuner.contract.protocols import BackboneTraits
from astuner.contract.protocols.traits import read_traits
from astuner.settings.planning.plan import Plan
from astuner.settings.plugins.drivers import construct, load
from astuner.shared.install_hints import install_command
from astuner.shared.known_packages import read_known_packages


def find_tiny_maker(plan: Plan, backbone: Any) -> Any:
    """Return the run's backbone if it makes tiny models, or else the first other one by name that does.

    Raises `UsageError` if none does, with what went wrong with those that cannot be loaded.
    """
    if read_traits(backbone, BackboneTraits).makes_tiny_models:
        return backbone
    broken: list[str] = []
    for candidate in plan.catalog.candidates("backbone"):
        try:
            kind = load(candidate)
            if read_traits(kind, BackboneTraits).makes_tiny_models:
                return construct(candidate, kind, None, None)
        except AstunerError as error:
            broken.append(str(error))
    remedy = " or ".join(map(install_command, read_known_packages().tiny_models))
    raise UsageError(
        f"--tiny: neither the backbone '{plan.backbone.candidate.name}' nor another installed one makes tiny models: {remedy}"
        + "".join(f"\n  {text}" for text in broken)
    )
