"""Loads the model of a run, or several, with tokenizer and trainer; from `model.path` or a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from zlib import crc32

import torch
from attrs import evolve
from transformers.utils.logging import disable_progress_bar

from astuner.contract.errors import ConfigError, Problem, UsageError
from astuner.contract.protocols import Control, EstimatorTraits, RunInfo, read_traits
from astuner.runs.training import Correction, check_whole_model
from astuner.settings.config.adapters import ADAPTER_FILE, read_adapters
from astuner_local.device import choose_device
from astuner_local.engine.plugin import engine_options
from astuner_local.engine.torch_settings import TorchSettings
from astuner_local.learner import TRAINER_STATE, Learner
from astuner_local.several.learner import AdapterLearners
from astuner_local.trainer.model_io import (
    add_adapters,
    check_tokenizer,
    compute_dtype,
    load_adapter_weights,
    load_model,
    load_weights,
    share_weights,
)
from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.reference import copy_trained
from astuner_local.trainer.trainer import Trainer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from astuner.episodes.rollout.recipe import Recipe
    from astuner.model.rendering import TemplateRenderer

MAY_DIFFER = ("total_steps",)
"""Options of the trainer that a resumed run may have changed."""


def open_learner(
    run: RunInfo, recipe: Recipe, control: Control, *, checkpoint: Path | None, total_steps: int, trains: bool = True
) -> Learner | AdapterLearners:
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
    several = bool(config.model.adapters)
    if several:
        check_whole_model(config.model.path, "a run with model.adapters")
        base = load_weights(config.model.path, getattr(torch, options.dtype)).to(device).requires_grad_(False).eval()
        models = {tag: _adapt(run, tag, base, checkpoint) for tag in config.model.adapters}
        references = dict.fromkeys(models)
        path = config.model.path
    else:
        own, reference = _load_model(run, checkpoint, settings, device, trains=trains, uses_reference=uses_reference)
        models, references = {"": own}, {"": reference}
        whole = not hasattr(own, "peft_config")
        path = str(checkpoint or config.model.path) if whole else _find_tokenizer(config.model.path)
    adapted = any(hasattr(model, "peft_config") for model in models.values())
    if adapted and options.weight_dtype != "float32":
        message = "adapters are trained in float32, a small part of the model. Remove the key, or train all weights"
        raise ConfigError([Problem(key="local.trainer.weight_dtype", message=message)])
    renderer = load_renderer(path, **config.model.rendering)
    check_tokenizer(next(iter(models.values())), renderer, path)
    loaded = {}
    for name in scorers:
        if name != "reference":
            control.notify(f"loading {name}, which scores what is sampled", "info")
            loaded[name] = _load_scorer(run, name, renderer, dtype=settings["dtype"], device=device)
    learners = {}
    for tag, model in models.items():
        trainer = Trainer(model, options, reference=references[tag])
        for name, scorer in loaded.items():
            trainer.add_scorer(name, scorer)
        if checkpoint is not None and trains:
            saved = checkpoint / tag
            if not (saved / TRAINER_STATE).is_dir():
                raise UsageError(f"{saved}: holds no {TRAINER_STATE}/, so training cannot continue from it")
            trainer.load(saved / TRAINER_STATE, may_differ=MAY_DIFFER)
        learners[tag] = Learner(
            model=model,
            renderer=renderer,
            trainer=trainer,
            estimator=estimator,
            run=run,
            recipe=recipe,
            settings=torch_settings,
        )
    return AdapterLearners(learners=learners, base=base, order=[]) if several else learners[""]


def _load_model(
    run: RunInfo, checkpoint: Path | None, settings: Mapping[str, Any], device: str, *, trains: bool, uses_reference: bool
) -> tuple[Any, Any]:
    """Return the model of the run, and its reference if it needs one of its own."""
    torch.manual_seed(run.seed)  # new adapters are drawn at random
    path = run.config.model.path
    if (Path(path) / ADAPTER_FILE).is_file() and trains:
        # The run's reference are the adapters that it began with, also when it goes on from a checkpoint.
        model = load_model(path, device=device, **settings)
        _check_targets(run, model)
        reference = copy_trained(model) if uses_reference else None
        if checkpoint is not None:
            load_adapter_weights(model, checkpoint)
        return model, reference
    model = load_model(str(checkpoint or path), device=device, **settings)
    if not (trains and uses_reference) or hasattr(model, "peft_config"):
        return model, None
    return model, load_model(path, settings["dtype"], weight_dtype=settings["weight_dtype"], device=device)


def _adapt(run: RunInfo, tag: str, base: Any, checkpoint: Path | None) -> Any:
    """Return a target's adapters on the weights of the base: new ones, or those of a checkpoint."""
    model, own = run.config.model, run.config.model.adapters[tag]
    torch.manual_seed(crc32(f"{run.seed} {tag}".encode()))
    adapted = add_adapters(
        share_weights(base),
        lora_rank=own.lora_rank or model.lora_rank,
        lora_alpha=own.lora_alpha or model.lora_alpha,
        target_modules=own.target_modules or model.target_modules,
        key=f"astuner.model.adapters.{tag}.target_modules",
    ).to(base.device)
    if checkpoint is not None:
        load_adapter_weights(adapted, checkpoint / tag)
    return adapted


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
