"""Components of a run, made again from its plan in one of Trinity's processes."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from astuner.contract.protocols import ComponentMaker, Estimator, PolicyLoss
from astuner.runs.training import Correction
from astuner.settings.planning.replan import ReplannedRun, replan
from astuner.settings.plugins.hooks import Hooks


@cache
def make_estimator(plan_file: str) -> Estimator:
    """Return the estimator of the run that a file plans."""
    again, hooks = _replan(plan_file)
    return again.plan.recipe.make_estimator(again.run_info, hooks)


@cache
def make_loss(plan_file: str) -> tuple[PolicyLoss, Correction]:
    """Return the policy gradient's loss of the run, and its correction for the sampler."""
    again, hooks = _replan(plan_file)
    correction = Correction.of(again.run_info.config.trainer_common.algorithm)
    return again.plan.recipe.make_loss(again.run_info, hooks), correction


def _replan(plan_file: str) -> tuple[ReplannedRun, ComponentMaker]:
    again = replan(Path(plan_file))
    return again, Hooks(again.plan.catalog, on_listener_error=print, options=again.run_info.config.plugins.options)
