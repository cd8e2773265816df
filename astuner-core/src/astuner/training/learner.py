"""What a training loop trains: the part of a backbone that holds the weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from astuner.judging.advantages import WeightedSample
from astuner.protocols import Engine, Estimator
from astuner.schema import Sample

if TYPE_CHECKING:
    from astuner.rendering import TemplateRenderer


class Learner(Protocol):
    """Holds the weights, updates and saves them. Lives in the driver; the weights may lie in other processes."""

    @property
    def step(self) -> int:
        """The last step that was trained."""
        ...

    @property
    def renderer(self) -> TemplateRenderer:
        """Renders conversations for the model."""
        ...

    @property
    def estimator(self) -> Estimator:
        """Turns rewards into advantages."""
        ...

    @property
    def overlaps(self) -> bool:
        """Whether the episodes of the next step are played while this one is trained, so with the weights of one step earlier."""
        ...

    def own_engine(self) -> Engine | None:
        """Make the engine that generates with these weights from the start; None if another engine gets them."""
        ...

    def weights(self) -> Any:
        """Return the argument of `Engine.update_weights`: a module, a path, or what an engine of the backbone's own expects."""
        ...

    def update(self, rows: Sequence[WeightedSample], step: int) -> dict[str, float]:
        """Train on the samples of a step with their advantages, and return metrics under flat names."""
        ...

    def reference_kl(self, samples: Sequence[Sample]) -> list[float]:
        """Return, per sample, the divergence from the reference summed over its trained tokens (`algorithm.kl_penalty`)."""
        ...

    def save(self, directory: Path) -> None:
        """Write a checkpoint: a Hugging Face model, and next to it what training needs to go on."""
        ...
