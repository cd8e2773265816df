"""How far the trainer's log-probabilities of sampled tokens are from those that the engine recorded, sequence by sequence.

A few sequences that are far off point at what the engine was fed; all of them alike at how it computes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import define, field, frozen

from astuner.contract.protocols.losses import MOST_LOG_RATIO
from astuner.contract.schema import Sample

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from astuner.episodes.judging.advantages import WeightedSample
    from astuner.runs.training.token_values import TokenValues

FAR_KL, FAR_TOTAL = 0.1, 1.0
"""Beyond this divergence per token and in all, in nats, a sequence is far off: of a short one, single tokens decide the mean."""
SCORED = 64
"""Sequences of a validation that the trainer scores at most, evenly spread over it."""
FEW = "A few alone point at what was fed: another template, a cut prefix, ids or weights that are not those recorded"
MANY = "That many point at the engine itself: its weights, dtype or quantisation, or the temperature of its log-probabilities"


@frozen(kw_only=True, eq=False)
class SequenceMismatch:
    """One sample, whose trained tokens engine and trainer have both scored."""

    sample: Sample
    log_ratios: NDArray[np.float64]
    """[tokens] log(trainer / engine)"""

    @property
    def kl(self) -> float:
        """KL(engine ‖ trainer) per token, by k3."""
        return float(np.mean(np.expm1(self.log_ratios) - self.log_ratios))


def choose_scored(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples of a validation that are scored."""
    trained = [sample for sample in samples if sample.trained]
    return trained[:: max(1, -(-len(trained) // SCORED))]


def compare_logprobs(samples: Sequence[Sample], trainer: Sequence[NDArray[Any]]) -> list[SequenceMismatch]:
    """Return the samples of which the trainer has a log-probability of each trained token; others have an empty array."""
    pairs = ((sample, own - sample.logprobs[sample.mask]) for sample, own in zip(samples, trainer, strict=True) if len(own))
    return [
        SequenceMismatch(sample=sample, log_ratios=np.clip(found.astype(np.float64), -MOST_LOG_RATIO, MOST_LOG_RATIO))
        for sample, found in pairs
    ]


def compute_mismatch_metrics(found: Sequence[SequenceMismatch]) -> dict[str, float]:
    """Return `mismatch/…`: divergences (k3), and the extremes of ratios that a mean over all tokens hides; none of nothing."""
    if not found:
        return {}
    kls, tokens = np.array([one.kl for one in found]), np.array([len(one.log_ratios) for one in found])
    totals = np.array([one.log_ratios.sum() for one in found])
    agents = np.array([one.sample.agent for one in found])
    metrics = {
        "sequences": len(found),
        "k3_kl": kls @ tokens / tokens.sum(),
        "abs_max": max(np.abs(one.log_ratios).max() for one in found),
        "seq_ratio_min": np.exp((totals / tokens).min()),
        "seq_ratio_max": np.exp((totals / tokens).max()),
        "seq_log_ratio_min": totals.min(),
        "seq_log_ratio_max": totals.max(),
    }
    names = np.unique(agents)
    for prefix, own in [("", kls), *((f"{name}/", kls[agents == name]) for name in names if len(names) > 1)]:
        metrics |= {f"{prefix}seq_kl_mean": own.mean(), f"{prefix}seq_kl_max": own.max()}
    return {f"mismatch/{name}": float(value) for name, value in metrics.items()}


@define(eq=False, kw_only=True)
class MismatchWatch:
    """Measures the mismatch of each step, and warns once if trainer and engine do not describe one model."""

    warn: Callable[[str], object]
    sampled_by: str
    """The engine and the template, for the warning."""
    _warned: bool = field(default=False, init=False)

    def measure_update(
        self,
        step: int,
        rows: Sequence[WeightedSample],
        values: TokenValues | None,
        *,
        updated: bool = True,
        is_stale: bool = False,
    ) -> dict[str, float]:
        """Return the metrics of a step's rows. If `is_stale`, other weights have sampled them: no warning.

        `updated`: the ratios in `values` are those to the weights before the step.
        """
        if values is None:
            return {}
        before = values.logprobs - np.log(values.ratios) if updated else values.logprobs
        trainer = np.split(before, np.cumsum(values.lengths))[:-1]
        return self._report("" if is_stale else f"step {step}", compare_logprobs([row.sample for row in rows], trainer))

    def measure_validation(self, step: int, samples: Sequence[Sample], trainer: Sequence[NDArray[Any]]) -> dict[str, float]:
        """Return the metrics of scored samples of a validation."""
        found = self._report(f"the validation of step {step}", compare_logprobs(samples, trainer))
        return {f"val/{name}": value for name, value in found.items()}

    def _report(self, what: str, found: Sequence[SequenceMismatch]) -> dict[str, float]:
        far = [one for one in found if one.kl > FAR_KL and one.kl * len(one.log_ratios) > FAR_TOTAL]
        if far and what and not self._warned:
            self._warned = True
            worst = max(far, key=lambda one: one.kl)
            ratios, place = worst.log_ratios, int(np.abs(worst.log_ratios).argmax())
            self.warn(
                f"{what}: trainer and engine disagree on {len(far)} of {len(found)} sequences, most of all on "
                f"{worst.sample.episode_id} (agent {worst.sample.agent}): KL {worst.kl:.2g} nats per token, ratio of the "
                f"sequence {np.exp(ratios.mean()):.2g}, trained token {place + 1} off by {abs(ratios[place]):.1f} nats; the "
                f"median of all is {np.median([one.kl for one in found]):.1g}. Sampled by {self.sampled_by}. "
                f"{FEW if len(far) * 2 <= len(found) else MANY}. `mismatch/…` in metrics.jsonl has the figures"
            )
        return compute_mismatch_metrics(found)
