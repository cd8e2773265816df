"""Which installed backbone makes the tiny model: the run's own, or else another."""

from __future__ import annotations

from astuner.contract.errors import AstunerError, UsageError
from astuner.contract.protocols.optional import MakesTinyModels, find_offer
from astuner.settings.planning.plan import Plan
from astuner.settings.plugins.drivers import construct, load
from astuner.shared.install_hints import install_command
from astuner.shared.known_packages import read_published


def find_tiny_maker(plan: Plan, backbone: object) -> MakesTinyModels:
    """Return the run's backbone if it makes tiny models, or else the first other one by name that does.

    Raises `UsageError` if none does, with what went wrong with those that cannot be loaded.
    """
    found = find_offer(backbone, MakesTinyModels)
    if found is not None:
        return found
    broken: list[str] = []
    for candidate in plan.catalog.candidates("backbone"):
        try:
            kind = load(candidate)
            if find_offer(kind, MakesTinyModels) is not None:
                made: MakesTinyModels = construct(candidate, kind, None, None)
                return made
        except AstunerError as error:
            broken.append(str(error))
    remedy = " or ".join(map(install_command, read_published().tiny_models))
    raise UsageError(
        f"--tiny: neither the backbone '{plan.backbone.candidate.name}' nor another installed one makes tiny models: {remedy}"
        + "".join(f"\n  {text}" for text in broken)
    )
