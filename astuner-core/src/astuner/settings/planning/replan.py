"""Plans a run again from a file in the run directory, in another process and perhaps on another machine."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from astuner.contract.errors import RunFailed
from astuner.contract.protocols import RunInfo
from astuner.settings.planning.plan import Plan, plan_run


@frozen(kw_only=True)
class ReplannedRun:
    """The plan that `write_plan` wrote down, made again."""

    plan: Plan
    run_info: RunInfo
    facts: Mapping[str, Any]
    """The facts written with it."""


def describe_plan(run_info: RunInfo, **facts: Any) -> dict[str, Any]:
    """Return how to plan a run again, as JSON values, with further ones; keep it private, since --set may hold a secret."""
    if run_info.conf is None:
        raise ValueError("a run without a YAML cannot be planned again")
    return {
        "conf": str(run_info.conf),
        "digest": _compute_digest(run_info.conf),
        "overrides": list(run_info.overrides),
        "backbone": run_info.backbone,
        "directory": str(run_info.directory),
        "attempt": run_info.attempt,
        "facts": facts,
    }


def write_plan(run_info: RunInfo, path: Path, **facts: Any) -> None:
    """Write down what `describe_plan` returns; readable only by its owner."""
    content = describe_plan(run_info, **facts)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(content, file)


def replan(path: Path) -> ReplannedRun:
    """Plan the run of a file from `write_plan`; raises `RunFailed` if its YAML has changed."""
    return replan_described(json.loads(path.read_text(encoding="utf-8")))


def replan_described(content: Mapping[str, Any]) -> ReplannedRun:
    """Plan the run of a description from `describe_plan`; raises `RunFailed` if its YAML has changed."""
    conf = Path(content["conf"])
    if not conf.is_file():
        raise RunFailed(
            f"{conf}: is not on this machine; the directory of a run's YAML has to be shared with all machines of the run"
        )
    if _compute_digest(conf) != content["digest"]:
        raise RunFailed(f"{conf}: was changed after the run started; undo the change, or start again")
    plan = plan_run(conf, content["overrides"], content["backbone"], trains=False)
    run_info = evolve(plan.run_info(attempt=content["attempt"]), directory=Path(content["directory"]))
    return ReplannedRun(plan=plan, run_info=run_info, facts=content["facts"])


def _compute_digest(conf: Path) -> str:
    return sha256(conf.read_bytes()).hexdigest()
