"""The model, its tokenizer and its trainer; made from `model.path` or a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import torch
from attrs import asdict, evolve, frozen
from numpy.typing import NDArray
from transformers.utils.logging import disable_progress_bar

from astuner.contract.errors import ConfigError, Problem, UsageError
from astuner.contract.protocols import Control, Estimator, EstimatorTraits, RunInfo, read_traits
from astuner.contract.schema import Sample, Sampling
from astuner.episodes.judging.advantages import WeightedSample
from astuner.runs.store.atomic import explain_os_errors
from astuner.runs.training import Correction
from astuner.runs.training.learner import LearnerTraits
from astuner.runs.training.token_values import TokenValues
from astuner.settings.config.adapters import ADAPTER_FILE, read_adapters
from astuner_local.device import choose_device
from astuner_local.engine.plugin import OWN_ENGINES, LocalEngine, engine_options
from astuner_local.engine.torch_settings import TorchSettings
from astuner_local.trainer.model_io import check_tokenizer, compute_dtype, load_adapter_weights, load_model, save_hf
from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.reference import copy_trained
from astuner_local.trainer.rows import TrainRow
from astuner_local.trainer.trainer import Trainer

if TYPE_CHECKING:
    from astuner.episodes.rollout.recipe import Recipe
    from astuner.model.rendering import TemplateRenderer

TRAINER_STATE = "trainer"
"""The folder of a checkpoint next to the model's files."""

MAY_DIFFER = ("total_steps",)
"""Options of the trainer that a resumed run may have changed."""


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

    def own_engine(self) -> LocalEngine | None:
        """Make an engine over the module itself; None when the user named another engine."""
        chosen, rollout = self.recipe.engine, self.run.config.rollout
        if chosen is not None and chosen.candidate.name not in OWN_ENGINES:
            return None
        # In this process every episode of a step can decode at once.
        sequences = rollout.max_env_worker if rollout.max_num_seqs == "auto" else rollout.max_num_seqs
        options = engine_options(self.recipe)
        return LocalEngine.from_module(
            self.model,
            max_model_len=rollout.max_model_len,
            max_num_seqs=options.max_num_seqs or sequences,
            dtype=self.trainer.options.dtype,
            kv_tokens=options.kv_tokens,
            prefill_tokens=options.prefill_tokens,
            version=self.step,
            compiled=options.compiled,
        )

    def weights(self) -> Any:
        """Return the module."""
        return self.model

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


def open_learner(
    run: RunInfo, recipe: Recipe, control: Control, *, checkpoint: Path | None, total_steps: int, trains: bool = True
) -> Learner:
    """Load everything; with a checkpoint, continue from it bit for bit. `trains` False leaves out what only updates need."""
    from astuner.model.rendering import load_renderer

    config = run.config
    disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers' own bars would run through the live table
    estimator = recipe.make_estimator(run, control.hooks)
    settings = {**run.native["model"], "weight_dtype": run.native["trainer"]["weight_dtype"]}
    options = TrainerOptions.from_native(
        run.native["trainer"],
        total_steps=total_steps,
        loss_agg_mode=cast("Any", read_traits(estimator, EstimatorTraits).default_loss_agg_mode),
        dtype=compute_dtype(config.model.path, settings["dtype"]),
        policy_loss=recipe.make_loss(run, control.hooks),
        correction=Correction.of(config.trainer_common.algorithm),
        entropy_coeff=config.trainer_common.algorithm.entropy_ctrl.coeff,
    )
    engine = engine_options(recipe)
    device = choose_device(engine.device)
    if engine.threads is not None:
        torch.set_num_threads(engine.threads)
    deterministic = device == "cpu" if options.deterministic is None else options.deterministic
    torch.use_deterministic_algorithms(deterministic, warn_only=True)
    # It helps to find a read of what was never written, and costs a sweep over each new tensor.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # set by name
    torch_settings = TorchSettings.read()
    scorers = read_traits(estimator, EstimatorTraits).scored_by if trains else ()
    uses_reference = _uses_reference(run, options) or "reference" in scorers
    control.notify(f"loading {checkpoint or config.model.path}", "info")
    torch.manual_seed(run.seed)  # new adapters are drawn at random
    begins_adapted = (Path(config.model.path) / ADAPTER_FILE).is_file()
    reference: Any = None
    if begins_adapted and trains:
        # The run's reference are the adapters that it began with, also when it goes on from a checkpoint.
        model = load_model(config.model.path, device=device, **settings)
        _check_targets(run, model)
        reference = copy_trained(model) if uses_reference else None
        if checkpoint is not None:
            load_adapter_weights(model, checkpoint)
    else:
        model = load_model(str(checkpoint or config.model.path), device=device, **settings)
    whole = not hasattr(model, "peft_config")
    if not whole and options.weight_dtype != "float32":
        message = "adapters are trained in float32, a small part of the model. Remove the key, or train all weights"
        raise ConfigError([Problem(key="local.trainer.weight_dtype", message=message)])
    path = str(checkpoint or config.model.path) if whole else _find_tokenizer(config.model.path)
    renderer = load_renderer(path, **config.model.rendering)
    check_tokenizer(model, renderer, path)
    if trains and whole and uses_reference:
        reference = load_model(config.model.path, settings["dtype"], weight_dtype=options.weight_dtype, device=device)
    trainer = Trainer(model, options, reference=reference)
    for name in scorers:
        if name != "reference":
            control.notify(f"loading {name}, which scores what is sampled", "info")
            trainer.add_scorer(name, _load_scorer(run, name, renderer, dtype=settings["dtype"], device=device))
    if checkpoint is not None and trains:
        if not (checkpoint / TRAINER_STATE).is_dir():
            raise UsageError(f"{checkpoint}: holds no {TRAINER_STATE}/, so training cannot continue from it")
        trainer.load(checkpoint / TRAINER_STATE, may_differ=MAY_DIFFER)
    return Learner(
        model=model,
        renderer=renderer,
        trainer=trainer,
        estimator=estimator,
        run=run,
        recipe=recipe,
        settings=torch_settings,
    )


def _load_scorer(run: RunInfo, path: str, renderer: TemplateRenderer, **settings: Any) -> Any:
    """Load a model that scores what the trained one samples; raises `ConfigError` if it reads other ids."""
    from astuner.model.rendering import load_renderer

    key = f"astuner.trainer_common.algorithm.{run.config.trainer_common.algorithm.adv_estimator}"
    try:
        model = load_model(path, **settings)
        own, others = (one.tokenizer.get_vocab() for one in (renderer, load_renderer(_find_tokenizer(path))))
    except ConfigError as error:
        raise ConfigError([evolve(problem, key=key) for problem in error.problems]) from error
    if own != others:
        token, like = sorted(own.items() ^ others.items())[0][0], run.config.model.path
        message = f"{path} has another tokenizer than {like}, such as for {token!r}: name a model of the same family"
        raise ConfigError([Problem(key=key, message=message)])
    return model


def _find_tokenizer(path: str) -> str:
    """Return the model whose tokenizer is used: adapters from elsewhere may have none of their own."""
    adapters = read_adapters(Path(path))
    own = adapters is None or (Path(path) / "tokenizer_config.json").is_file()
    return path if adapters is None or own else adapters.base


def _check_targets(run: RunInfo, model: Any) -> None:
    """Raise `ConfigError` if the user asks for adapters on all linear layers, and the saved ones leave some out."""
    if "model.target_modules" not in run.user_keys or run.config.model.target_modules != "all-linear":
        return
    from peft.tuners.tuners_utils import BaseTunerLayer

    base = model.get_base_model()
    layers = [module for module in base.modules() if isinstance(module, BaseTunerLayer)]
    adapted = {part for layer in layers for part in cast("torch.nn.Module", layer).modules()}
    head = base.get_output_embeddings()
    bare = [name for name, m in base.named_modules() if type(m) is torch.nn.Linear and m is not head and m not in adapted]
    if bare:
        message = (
            f"'all-linear' is asked for, and the LoRA adapters of model.path leave out {len(bare)} linear layers, such as "
            f"{bare[0]}. Remove the key to train these adapters on, or merge them into their base first"
        )
        raise ConfigError([Problem(key="astuner.model.target_modules", message=message)])


def _uses_reference(run: RunInfo, options: TrainerOptions) -> bool:
    return (options.use_kl_loss and options.kl_loss_coef > 0) or run.config.trainer_common.algorithm.use_kl_in_reward
