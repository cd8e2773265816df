"""What `run.json` and the first line of a run say of a start: versions, components and where they come from."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from astuner.settings.config.secrets import redact_command
from astuner.settings.planning.plan import Plan
from astuner.shared.known_packages import CORE


def collect_run_facts(plan: Plan) -> dict[str, Any]:
    """Return what `run.json` holds of a start, apart from what it was made from (`driver.sources`)."""
    config = plan.loaded.config
    return {
        "project_name": config.project_name,
        "experiment_name": config.experiment_name,
        "backbone": plan.backbone.candidate.name,
        "conf": str(plan.loaded.path),
        "seed": config.seed,
        "total_training_steps": config.trainer_common.total_training_steps,
        "versions": {"astuner-core": version("astuner-core"), "python": platform.python_version()},
        "plugins": list_plugins_in_use(plan),
        "git": _read_git_state(plan.loaded.path.parent),
        **({"stage": dict(plan.loaded.stage)} if plan.loaded.stage else {}),
        "command": list(map(plan.loaded.secrets.hide, redact_command(sys.argv))),
    }


def _read_git_state(directory: Path) -> dict[str, Any] | None:
    """Return commit and cleanliness of the directory's checkout, or None if it is not one."""
    command = ["git", "-C", str(directory), "status", "--porcelain=v2", "--branch"]
    try:
        lines = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return None
    commit = next((line.split()[-1] for line in lines if line.startswith("# branch.oid")), None)
    return {"commit": commit, "clean": not any(not line.startswith("#") for line in lines)}


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
