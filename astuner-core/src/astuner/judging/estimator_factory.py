"""Making the advantage estimator that the configuration names."""

from __future__ import annotations

from typing import cast

from astuner.errors import PluginError
from astuner.plugins.catalog import Catalog
from astuner.plugins.drivers import make
from astuner.protocols import Estimator, RunInfo


def make_estimator(run: RunInfo) -> Estimator:
    """Return the run's estimator; raises `PluginError` with the blame when it is none."""
    key = "astuner.trainer_common.algorithm.adv_estimator"
    name = run.config.trainer_common.algorithm.adv_estimator
    candidate = Catalog.discover(disabled=run.config.plugins.disabled).find("estimator", name, config_dir=run.config_dir, key=key)
    made = make(candidate, None, run)
    if not hasattr(made, "advantages"):
        raise PluginError(f"{candidate.blame} has no method `advantages(groups)`")
    return cast("Estimator", made)
