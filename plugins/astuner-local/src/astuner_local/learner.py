"""The model that learns, its tokenizer and its trainer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from attrs import asdict, frozen
from numpy.typing import NDArray

from astuner.contract.protocols import Estimator, RunInfo
from astuner.contract.schema import Sample, Sampling
from astuner.episodes.judging.advantages import WeightedSample
from astuner.runs.store.atomic import explain_os_errors
from astuner.runs.training.learner import LearnerTraits
from astuner.runs.training.token_values import TokenValues
from astuner_local.engine.plugin import OWN_ENGINES, LocalEngine, engine_options
from astuner_local.engine.serving import load
from astuner_local.engine.torch_settings import TorchSettings
from astuner_local.several.engines import SeveralEngines
from astuner_local.several.opponents import find_opponents, read_version
from astuner_local.trainer.model_io import save_hf
from astuner_local.trainer.rows import TrainRow
from astuner_local.trainer.trainer import Trainer

if TYPE_CHECKING:
    from astuner.episodes.rollout.recipe import Recipe
    from astuner.model.rendering import TemplateRenderer

TRAINER_STATE = "trainer"
"""The folder of a checkpoint next to the model's files."""


@frozen(kw_only=True, eq=False)
class Learner:
    """The model that learns, and its engine."""

    traits: ClassVar[LearnerTraits] = LearnerTraits(
        serves_weights=True,
        brings_engine=True,
        brings_renderer=True,
        compares_with_reference=True,
        weighs_entropy=True,
        records_tokens=True,
        scores_samples=True,
        scores_with_models=True,
        weighs_streams=True,
    )

    model: Any
    renderer: TemplateRenderer
    trainer: Trainer
    estimator: Estimator
    run: RunInfo
    recipe: Recipe
    settings: TorchSettings
    """Agents and judges run in this process, between the calls."""

    @property
    def step(self) -> int:
        """The last trained step."""
        return self.trainer.step

    @property
    def has_own_engine(self) -> bool:
        """Whether no other engine was named."""
        chosen = self.recipe.engine
        return chosen is None or chosen.candidate.name in OWN_ENGINES

    def own_engine(self) -> LocalEngine | SeveralEngines | None:
        """Make an engine over the module itself, and its opponents; None when the user named another engine."""
        if not self.has_own_engine:
            return None
        opponents = self.make_opponent_engines()
        return SeveralEngines(opponents, self.make_engine(self.model)) if opponents else self.make_engine(self.model)

    def make_opponent_engines(self, base: Any = None) -> dict[str, LocalEngine]:
        """Make the engines of `model.opponents`, over the weights that they answer with now; `base` is that without adapters."""
        device: Any = next(self.model.parameters()).device.type
        return {
            tag: self.make_engine(base if place is None else load(place, "auto", device=device), read_version(place))
            for tag, place in find_opponents(self.run, self.step).items()
        }

    def make_engine(self, model: Any, version: int | None = None) -> LocalEngine:
        """Make an engine over a module, with the version of the trained weights or another one."""
        rollout = self.run.config.rollout
        # In this process every episode of a step can decode at once.
        sequences = rollout.max_env_worker if rollout.max_num_seqs == "auto" else rollout.max_num_seqs
        options = engine_options(self.recipe)
        return LocalEngine.from_module(
            model,
            max_model_len=rollout.max_model_len,
            max_num_seqs=options.max_num_seqs or sequences,
            dtype=self.trainer.options.dtype,
            kv_tokens=options.kv_tokens,
            prefill_tokens=options.prefill_tokens,
            version=self.step if version is None else version,
            compiled=options.compiled,
        )

    def weights(self) -> Any:
        """Return the module; with opponents a mapping of target tags, in which its own is empty."""
        opponents = find_opponents(self.run, self.step)
        return {"": self.model, **opponents} if opponents else self.model

    def reference_kl(self, samples: Sequence[Sample]) -> list[NDArray[np.float64]]:
        """Return, per sample, the divergence from the reference at each of its trained tokens."""
        with self.settings.hold():
            return self.trainer.reference_kl(samples)

    def score(self, samples: Sequence[Sample], sampling: Sampling) -> list[NDArray[np.float64]]:
        """Return, per sample, the log-probability of each of its trained tokens."""
        with self.settings.hold():
            return self.trainer.score(samples, sampling)

    def score_with(self, model: str, samples: Sequence[Sample], sampling: Sampling) -> list[NDArray[np.float64]]:
        """Return, per sample, another model's log-probability of each of its trained tokens."""
        with self.settings.hold():
            return self.trainer.score(samples, sampling, by=model)

    def update(self, rows: Sequence[WeightedSample], step: int) -> dict[str, float]:
        """Train on the weighed samples of a step."""
        record = self.run.config.trainer_common.token_record.enable
        with self.settings.hold():
            return self.trainer.update([TrainRow(**asdict(row, recurse=False)) for row in rows], step, record=record)

    def set_entropy_coeff(self, value: float) -> None:
        """Weigh the entropy so in the next updates."""
        self.trainer.entropy_coeff = value

    def take_token_values(self) -> TokenValues | None:
        """Return the values of the tokens of the last update, once."""
        return self.trainer.take_token_values()

    def save(self, directory: Path) -> None:
        """Write a checkpoint: a Hugging Face model, and the trainer's state next to it."""
        with explain_os_errors(directory), self.settings.hold():
            save_hf(self.model, self.renderer.tokenizer, directory)
            self.trainer.save(directory / TRAINER_STATE)
