"""What the training loop trains: the part of a backbone that holds the weights.

A backbone is a `Learner` under `astuner.runs.training.loop`, which plays, weighs, reports, validates, saves and resumes:

    def train(self, run, tasks, recipe, control):
        estimator = recipe.make_estimator(run, control.hooks)
        learner = MyLearner(run, estimator, loop.checkpoint_to_resume(run, control))
        yield from loop.train(run, tasks, recipe, control, learner)

The `traits` of a learner say what else it does; one that trains the weights of a model says `serves_weights` or `brings_engine`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from attrs import field, frozen

from astuner.contract.protocols import Estimator
from astuner.contract.protocols.traits import FLAG, promise, promise_attribute
from astuner.episodes.judging.advantages import WeightedSample


@frozen(kw_only=True)
class LearnerTraits:
    """What a learner does beyond updating. The method that a flag names is described with it."""

    overlaps: bool = field(default=False, validator=FLAG)
    """Whether the episodes of the next step are played while this one is trained, so with weights one step older."""
    serves_weights: bool = promise("weights")
    """`weights()`: return the argument of `Engine.update_weights`: a module, a path, or what the backbone's own engine expects.
    Without it any engine will do, and none gets weights."""
    brings_engine: bool = promise("own_engine")
    """`own_engine() -> Engine | None`: make the engine that generates with these weights from the start; None if another one gets
    them."""
    brings_renderer: bool = promise_attribute("renderer")
    """`renderer: TemplateRenderer`: renders conversations for the model; without it that of `model.path` is loaded."""
    compares_with_reference: bool = promise("reference_kl")
    """`reference_kl(samples) -> Sequence[NDArray]`: per sample, the divergence from the reference at each of its trained tokens
    (`algorithm.kl_penalty`), as `algorithm.use_kl_in_reward` needs it."""
    adjusts_sampling: bool = promise("sampling")
    """`sampling(configured: Sampling) -> Sampling`: what the episodes of the next training step are sampled from."""
    rewrites_messages: bool = promise_attribute("rewriter")
    """`rewriter: Rewriter | None`: what trained agents' messages become before the model of the next round sees them."""
    weighs_entropy: bool = promise("set_entropy_coeff")
    """`set_entropy_coeff(value)`: weigh the entropy so in the next updates, as `algorithm.entropy_ctrl.target` needs it."""
    records_tokens: bool = promise("take_token_values")
    """`take_token_values() -> TokenValues | None`: return the values of the rows of the last update, in their order, and forget
    them; None if nothing was trained. Called unless `trainer_common.token_record.enable` is off."""
    scores_samples: bool = promise("score")
    """`score(samples, sampling: Sampling) -> Sequence[NDArray]`: per sample, the log-probability of each of its trained tokens by
    the current weights, in the distribution of `sampling`; for `val/mismatch/…`."""
    scores_with_models: bool = promise("score_with")
    """`score_with(model: str, samples, sampling) -> Sequence[NDArray]`: the same by another model: one that its estimator names
    (`scored_by`) and it has loaded."""
    weighs_streams: bool = field(default=False, validator=FLAG)
    """Whether it trains likelihood and divergence of a row, as an estimator gives them, beside its advantages."""


class Learner(Protocol):
    """Updates and saves the weights. Lives in the driver; the weights may be in other processes.

    It may have `traits` (`LearnerTraits`), which may depend on the run.
    """

    @property
    def step(self) -> int:
        """The last step that was trained."""

    @property
    def estimator(self) -> Estimator:
        """Turns rewards into advantages."""

    def update(self, rows: Sequence[WeightedSample], step: int) -> dict[str, float]:
        """Train on the weighed samples of a step, and return metrics under flat names."""

    def save(self, directory: Path) -> None:
        """Write a checkpoint: a Hugging Face model if weights are trained, and the state needed to continue."""
