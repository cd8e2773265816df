"""A backbone whose learner has weights, an engine of its own and updates beside the rollouts; it trains nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve

from astuner.contract.protocols import BackboneTraits, EngineTraits
from astuner.runs.training import loop
from astuner.runs.training.learner import LearnerTraits
from astuner.runs.training.token_values import TokenValues


class ServingBackbone:
    name = "serving"
    traits = BackboneTraits(honours=("*",))
    overlaps = False
    off = 0.0
    """How far the log-probabilities of its trainer are from those of its engine."""

    def train(self, run: Any, tasks: Any, recipe: Any, control: Any) -> Any:
        yield from loop.train(run, tasks, recipe, control, Learner(run, recipe, control, self.overlaps, self.off))

    def evaluate(self, run: Any, tasks: Any, recipe: Any, checkpoint: Any, control: Any) -> Any:
        yield from loop.evaluate(run, tasks, recipe, control, Learner(run, recipe, control, self.overlaps, self.off))

    def export(self, checkpoint: Path, out: Path, *, merge_lora: bool, dtype: str | None = None) -> None: ...

    def close(self) -> None: ...


class OverlappingBackbone(ServingBackbone):
    name = "overlapping"
    overlaps = True


class DisagreeingBackbone(ServingBackbone):
    name = "disagreeing"
    off = -2.0


class WeighingBackbone(ServingBackbone):
    """The entropy of its steps is 1.0, 0.4, 0.4, …"""

    name = "weighing"

    def train(self, run: Any, tasks: Any, recipe: Any, control: Any) -> Any:
        learner = WeighingLearner(run, recipe, control, self.overlaps, self.off)
        learner.step = control.resume_step
        yield from loop.train(run, tasks, recipe, control, learner)


class Learner:
    traits = LearnerTraits(serves_weights=True, brings_engine=True, compares_with_reference=True, records_tokens=True)

    def __init__(self, run: Any, recipe: Any, control: Any, overlaps: bool, off: float) -> None:
        self.estimator, self.step = recipe.make_estimator(run, control.hooks), 0
        self.traits, self._off = evolve(self.traits, overlaps=overlaps, scores_samples=bool(off)), off
        self._engine = control.hooks.make_engine(recipe.engine.candidate, recipe.engine.options, run)()
        self._engine.update_weights = self._serve
        self._engine.traits = EngineTraits(measures_busy_time=True)
        self._engine.busy_s, self._engine.generate = 0.0, self._count_as_a_second(self._engine.generate)
        self._compared = 0
        self._rows: Sequence[Any] = ()
        self._served: list[tuple[str, int]] = []

    def _count_as_a_second(self, generate: Any) -> Any:
        def counted(request: Any) -> Any:
            self._engine.busy_s += 1.0
            return generate(request)

        return counted

    def own_engine(self) -> Any:
        return self._engine

    def weights(self) -> str:
        return f"weights of step {self.step}"

    def update(self, rows: Sequence[Any], step: int) -> dict[str, float]:
        self.step, self._rows = step, rows
        expected = [(f"weights of step {number}", number) for number in range(1, step)]
        return {
            "compared": float(self._compared),
            "served_before": float(len(self._served)),
            "served_in_order": float(self._served == expected),
        }

    def take_token_values(self) -> TokenValues:
        samples = [row.sample for row in self._rows]
        logprobs = np.concatenate(self.score(samples))
        stack = [logprobs, logprobs, logprobs, np.ones_like(logprobs), logprobs, *[0 * logprobs] * 3]
        return TokenValues.from_stack(stack, [sample.trained for sample in samples])

    def score(self, samples: Sequence[Any], sampling: Any = None) -> list[Any]:
        return [sample.logprobs[sample.mask] + self._off for sample in samples]

    def reference_kl(self, samples: Sequence[Any]) -> list[Any]:
        self._compared += len(samples)
        return [np.full(sample.trained, 0.5) for sample in samples]

    def save(self, directory: Path) -> None:
        (directory / "weights").write_text(self.weights())

    async def _serve(self, ref: str, version: int) -> None:
        self._served.append((ref, version))


class WeighingLearner(Learner):
    traits = evolve(Learner.traits, weighs_entropy=True)
    coeff = 0.0

    def set_entropy_coeff(self, value: float) -> None:
        self.coeff = value

    def update(self, rows: Sequence[Any], step: int) -> dict[str, float]:
        return {**super().update(rows, step), "entropy/mean": 1.0 if step == 1 else 0.4, "weighed": self.coeff}
