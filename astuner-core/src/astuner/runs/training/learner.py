"""What the training loop trains: the part of a backbone that holds the weights.

A backbone is a `Learner` under `astuner.runs.training.loop`, which plays, weighs, reports, validates, saves and resumes:

    def train(self, run, tasks, recipe, control):
        estimator = recipe.make_estimator(run, control.hooks)
        learner = MyLearner(run, estimator, loop.checkpoint_to_resume(run, control))
        yield from loop.train(run, tasks, recipe, control, learner)

`astuner plugin new backbone` writes a whole one. The other Protocols here are what a learner may offer; one that trains the
weights of a model offers `ServesWeights` or `BringsEngine`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from astuner.contract.protocols import Engine, Estimator
from astuner.contract.schema import Sample, Sampling
from astuner.episodes.judging.advantages import WeightedSample

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from astuner.model.rendering import TemplateRenderer
    from astuner.runs.training.token_values import TokenValues


class Learner(Protocol):
    """Updates and saves the weights. Lives in the driver; the weights may be in other processes."""

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


class ServesWeights(Protocol):
    """Has weights for the engine. Without this offer any engine will do, and none gets weights."""

    def weights(self) -> Any:
        """Return the argument of `Engine.update_weights`: a module, a path, or what the backbone's own engine expects."""


class BringsEngine(Protocol):
    """May have its own engine."""

    def own_engine(self) -> Engine | None:
        """Make the engine that generates with these weights from the start; None if another one gets them."""


class BringsRenderer(Protocol):
    """Has a renderer already; without this offer that of `model.path` is loaded."""

    @property
    def renderer(self) -> TemplateRenderer:
        """Renders conversations for the model."""


class Overlaps(Protocol):
    """Can be updated while episodes are played."""

    @property
    def overlaps(self) -> bool:
        """Whether the episodes of the next step are played while this one is trained, so with weights one step older."""


class ComparesWithReference(Protocol):
    """Can compare with a reference model, as `algorithm.use_kl_in_reward` needs it."""

    def reference_kl(self, samples: Sequence[Sample]) -> Sequence[NDArray[np.float64]]:
        """Return, per sample, the divergence from the reference at each of its trained tokens (`algorithm.kl_penalty`)."""


class AdjustsSampling(Protocol):
    """Learns how to sample."""

    def sampling(self, configured: Sampling) -> Sampling:
        """Return what the episodes of the next training step are sampled from."""


class RecordsTokens(Protocol):
    """Keeps what it computed of each trained token, unless `trainer_common.token_record.enable` is off."""

    def take_token_values(self) -> TokenValues | None:
        """Return the values of the rows of the last update, in their order, and forget them; None if nothing was trained."""
