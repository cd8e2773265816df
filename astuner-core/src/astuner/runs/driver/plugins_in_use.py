"""The components and extensions of a run, with where they come from."""

from __future__ import annotations

from importlib.metadata import version

from astuner.settings.planning.plan import Plan
from astuner.shared.known_packages import CORE


def list_plugins_in_use(plan: Plan) -> list[dict[str, str]]:
    """Return kind, name, distribution and version of every component and extension of the run."""
    recipe = plan.recipe
    components = [plan.backbone, plan.reader, *recipe.judges, recipe.tracker, recipe.estimator, *plan.loggers]
    components += [recipe.engine] if recipe.engine else []
    components += recipe.environments.components if recipe.environments else []
    chosen = [component.candidate for component in components]
    chosen += plan.catalog.candidates("hook")
    return [{"kind": c.kind, "name": c.name, "distribution": c.dist or c.target, "version": c.version or ""} for c in chosen]


def format_header(plan: Plan) -> str:
    """Return the first line of a run: core's version, every component that is not core's own with its origin, and what it chose.

    Keys that the backbone does not use are named here, so that none is ignored in silence.
    """
    others = [row for row in list_plugins_in_use(plan) if row["distribution"] != CORE]
    origins = (f" ({row['distribution']} {row['version']})" if row["version"] else "" for row in others)
    listed = ", ".join(f"{row['kind']} {row['name']}{origin}" for row, origin in zip(others, origins, strict=True))
    engine = plan.recipe.engine
    auto = engine is not None and plan.loaded.config.rollout.name == "auto"
    chosen = f"; engine {engine.candidate.name}, chosen by rollout.name: auto" if engine is not None and auto else ""
    keys = f"{', '.join(plan.idle_keys)} (`astuner config explain` says why)"
    unused = f"; not used by {plan.backbone.candidate.name}: {keys}" if plan.idle_keys else ""
    return f"{CORE} {version(CORE)}; plugins: {listed or 'none'}{chosen}{unused}"
