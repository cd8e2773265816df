"""Trains an adapter for each target, on one base."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import frozen

from astuner.contract.schema import Sample, Sampling
from astuner.episodes.judging.advantages import WeightedSample
from astuner.runs.training.learner import LearnerTraits
from astuner.runs.training.token_values import TokenValues, join_passes
from astuner_local.learner import Learner
from astuner_local.several.engines import SeveralEngines
from astuner_local.several.opponents import find_opponents

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from astuner.contract.protocols import Estimator
    from astuner.model.rendering import TemplateRenderer

COUNTS = ("signal/", "tokens/")
"""Metrics that are added up over adapters; of all others the whole has the mean over trained tokens."""


@frozen(kw_only=True, eq=False)
class AdapterLearners:
    """One learner for each target: its own adapters, optimizer, reference and checkpoint, over weights that all share."""

    traits: ClassVar[LearnerTraits] = Learner.traits

    learners: Mapping[str, Learner]
    """By target tag."""
    base: Any
    """The model without adapters, which answers everyone else."""
    order: list[list[int]]
    """For each learner, the numbers of its rows in the last update."""

    @property
    def _first(self) -> Learner:
        return next(iter(self.learners.values()))

    @property
    def step(self) -> int:
        """The last trained step."""
        return self._first.step

    @property
    def estimator(self) -> Estimator:
        """Turns rewards into advantages."""
        return self._first.estimator

    @property
    def renderer(self) -> TemplateRenderer:
        """Renders conversations for all of them."""
        return self._first.renderer

    def own_engine(self) -> SeveralEngines | None:
        """Make an engine over all modules; None when the user named another engine."""
        if not self._first.has_own_engine:
            return None
        engines = {tag: learner.make_engine(learner.model) for tag, learner in self.learners.items()}
        return SeveralEngines({**engines, **self._first.make_opponent_engines(self.base)}, self._first.make_engine(self.base, 0))

    def weights(self) -> dict[str, Any]:
        """Return the module of each target, and the directories of its opponents' weights."""
        opponents = {tag: place for tag, place in find_opponents(self._first.run, self.step).items() if place is not None}
        return {**{tag: learner.model for tag, learner in self.learners.items()}, **opponents}

    def reference_kl(self, samples: Sequence[Sample]) -> list[NDArray[np.float64]]:
        """Return, per sample, the divergence from its reference at each of its trained tokens."""
        return self._spread(samples, lambda learner, own: learner.reference_kl(own))

    def score(self, samples: Sequence[Sample], sampling: Sampling) -> list[NDArray[np.float64]]:
        """Return, per sample, the log-probability of each of its trained tokens."""
        return self._spread(samples, lambda learner, own: learner.score(own, sampling))

    def score_with(self, model: str, samples: Sequence[Sample], sampling: Sampling) -> list[NDArray[np.float64]]:
        """Return, per sample, another model's log-probability of each of its trained tokens."""
        return self._spread(samples, lambda learner, own: learner.score_with(model, own, sampling))

    def update(self, rows: Sequence[WeightedSample], step: int) -> dict[str, float]:
        """Train each adapter on its own rows of a step; its metrics are below `adapter/TAG/`."""
        self.order[:] = _find_places([row.sample for row in rows], self.learners)
        found = {
            tag: learner.update([rows[number] for number in own], step)
            for (tag, learner), own in zip(self.learners.items(), self.order, strict=True)
        }
        own = {f"adapter/{tag}/{name}": value for tag, metrics in found.items() for name, value in metrics.items()}
        return {**_combine(list(found.values())), **own}

    def set_entropy_coeff(self, value: float) -> None:
        """Weigh the entropy so in the next updates."""
        for learner in self.learners.values():
            learner.set_entropy_coeff(value)

    def take_token_values(self) -> TokenValues | None:
        """Return the values of the tokens of the last update, once."""
        taken = [learner.take_token_values() for learner in self.learners.values()]
        passes = [(own, values) for own, values in zip(self.order, taken, strict=True) if values is not None]
        return join_passes(passes, sum(map(len, self.order)))

    def save(self, directory: Path) -> None:
        """Write a checkpoint: a directory of adapters for each target, with its trainer's state in it."""
        for tag, learner in self.learners.items():
            (directory / tag).mkdir()
            learner.save(directory / tag)

    def _spread(self, samples: Sequence[Sample], ask: Callable[[Learner, list[Sample]], Sequence[Any]]) -> list[Any]:
        """Ask each learner for its own samples, and return the answers in the order of all."""
        found: dict[int, Any] = {}
        for own, learner in zip(_find_places(samples, self.learners), self.learners.values(), strict=True):
            if own:
                found.update(zip(own, ask(learner, [samples[number] for number in own]), strict=True))
        return [found[number] for number in range(len(samples))]


def _find_places(samples: Sequence[Sample], tags: Mapping[str, Any]) -> list[list[int]]:
    """Return the numbers of the samples of each tag."""
    return [[number for number, sample in enumerate(samples) if sample.target_tag == tag] for tag in tags]


def _combine(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the metrics of the whole step."""
    whole: dict[str, float] = {}
    for name in dict.fromkeys(name for metrics in found for name in metrics):
        of = [metrics for metrics in found if name in metrics]
        values = [metrics[name] for metrics in of]
        if name == "signal/nothing_to_train":
            whole[name] = min(values)
        elif name.startswith(COUNTS):
            whole[name] = sum(values)
        elif name.endswith("_max"):
            whole[name] = max(values)
        else:
            tokens = [metrics["tokens/trained"] for metrics in of]
            whole[name] = sum(v * n for v, n in zip(values, tokens, strict=True)) / sum(tokens) if any(tokens) else values[0]
    return whole
