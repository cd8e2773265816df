"""The estimated cost of every stage of a file, before the first of them starts."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from astuner.contract.errors import SeveralStages
from astuner_tools.demonstrations.reading import read_demonstrations
from astuner_tools.dry_run.cost_estimate import estimate
from astuner_tools.stages.planned_stage import PlannedStage, plan_stages


def estimate_stages(
    several: SeveralStages, conf: Path, overrides: Sequence[str], backbone: str | None, services: Sequence[str]
) -> str:
    """Return the estimates of all stages as text; raises `ConfigError` with the problems of all of them.

    One whose model is not there yet is estimated with the model that the first one begins with.
    """
    parts: list[str] = []
    with tempfile.TemporaryDirectory(prefix="astuner-stages-") as empty:
        for stage in plan_stages(several, conf, overrides, backbone):
            if stage.demonstrations is not None:
                parts.append("\n".join(_describe_demonstrations(stage)))
                continue
            like = stage.plan.loaded.config.model.path
            # A new tiny model is made when the first stage begins.
            model = empty if os.path.isabs(like) and not os.path.isdir(like) else like
            items = [*stage.overrides, f"model.path={json.dumps(model)}"] if stage.follows else stage.overrides
            parts.append(f"{stage.title}\n{estimate(conf, items, backbone, services)}")
    return "\n\n".join(parts)


def _describe_demonstrations(stage: PlannedStage) -> Iterator[str]:
    assert stage.demonstrations is not None
    request = stage.demonstrations.make_request(stage.plan.loaded.path, stage.model, stage.overrides, None)
    rows = len(read_demonstrations(stage.demonstrations.find_file(stage.plan.loaded.path)).sound)
    yield stage.title
    yield f"backbone        {stage.plan.backbone.candidate.name} ({stage.plan.backbone.candidate.provider})"
    yield f"run directory   {stage.directory.path}"
    yield f"demonstrations  {rows} of {stage.demonstrations.file}, {request.choose_epochs(rows)} epochs"
