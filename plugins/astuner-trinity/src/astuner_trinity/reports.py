"""Trinity's measurements of a step, under the names common to all backbones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from astuner.contract.protocols import Estimator
from astuner.contract.schema import Group
from astuner.episodes.judging.advantages import WeightedSample, compute_advantages
from astuner.episodes.rollout.metrics import compute_rollout_metrics
from astuner.runs.training.signal import compute_signal_metrics, compute_update_metrics, select_live_rows
from astuner_trinity.rows import MEASURED

NATIVE = "trinity/"
"""The prefix of Trinity's own metrics."""


def step_metrics(
    groups: Sequence[Group],
    rows: Sequence[WeightedSample],
    trainer: Mapping[str, float],
    explorer: Mapping[str, float],
    *,
    kl_in_loss: bool,
    every_row: bool,
) -> dict[str, float]:
    """Return the metrics of a training step: episodes, rows, loss, times, and all of Trinity's own."""
    found: dict[str, float] = {}
    measured, own = split_measured(trainer)
    norm = own.get("actor/grad_norm", math.nan)
    norms = [] if measured.get("idle") or math.isnan(norm) else [norm]
    if groups:
        found |= compute_rollout_metrics(groups, rows)
        found |= compute_signal_metrics(rows, select_live_rows(rows, every_row=every_row), norms)
        # The backbone refuses `filter_groups`.
        found |= {"signal/groups_filtered": 0.0, "signal/groups_surplus": 0.0}
    found |= loss_metrics(measured, norms, kl_in_loss=kl_in_loss)
    found |= {f"{NATIVE}{name}": value for name, value in own.items()}
    found |= {f"{NATIVE}{name}": value for name, value in explorer.items()}
    if "time/train_step" in own:
        found["time/update_s"] = own["time/train_step"]
    if "tokens_computed" in measured:
        found["tokens/computed"] = measured["tokens_computed"]
    if "rate" in measured:
        found["lr"] = measured["rate"]
    if not groups and "lag_mean" in measured:
        found |= {"staleness/mean": measured["lag_mean"], "staleness/max": measured["lag_max"]}
    return found


def loss_metrics(measured: Mapping[str, float], norms: Sequence[float], *, kl_in_loss: bool) -> dict[str, float]:
    """Return losses, clipping, and the distance of trainer and sampler; empty for one of Trinity's losses."""
    if not measured.get("tokens"):
        return {}
    sums = dict(measured)
    found = compute_update_metrics(sums, norms, 1)
    found["ratio/off_one_max"] = measured["update_ratio"]
    # k1 of the sampler's divergence from the trainer, over the trained tokens: about 0 in a synchronous run.
    found["mismatch/mean"] = -measured["drift"] / measured["tokens"]
    if kl_in_loss:
        found["kl/mean"] = measured["kl"] / measured["tokens"]
    return found


def explorer_metrics(
    groups: Sequence[Group], explorer: Mapping[str, float], estimator: Estimator, *, by_agent: bool
) -> dict[str, float]:
    """Return the metrics of an explorer's step before it is trained on."""
    rows = compute_advantages(groups, estimator, by_agent=by_agent)
    return compute_rollout_metrics(groups, rows) | {f"{NATIVE}{name}": value for name, value in explorer.items()}


def split_measured(trainer: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """Separate our metrics from Trinity's own; Trinity puts its own prefixes before ours."""
    ours: dict[str, float] = {}
    own: dict[str, float] = {}
    for name, value in trainer.items():
        before, found, after = name.rpartition(MEASURED)
        if found and before in ("", "actor/", "actor/actor/"):
            ours[after] = value
        else:
            own[name.replace("actor/actor/", "actor/")] = value
    return ours, own
