"""The model, its tokenizer and its trainer; made from `model.path` or a checkpoint."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from attrs import frozen
from safetensors import SafetensorError
from transformers.utils.logging import disable_progress_bar

from astuner.errors import UsageError
from astuner.judging.advantages import WeightedSample
from astuner.protocols import Control, Estimator, RunInfo
from astuner.runs.atomic import explain_os_errors
from astuner.schema import Sample
from astuner_local.engine.plugin import OWN_ENGINES, LocalEngine, engine_options
from astuner_local.trainer.model_io import compute_dtype, load_model, save_hf
from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.rows import TrainRow
from astuner_local.trainer.trainer import Trainer

if TYPE_CHECKING:
    from astuner.rendering import TemplateRenderer
    from astuner.rollout.recipe import Recipe

TRAINER_STATE = "trainer"
"""The folder of a checkpoint next to the model's files."""

MAY_DIFFER = ("total_steps",)
"""Options of the trainer that a resumed run may have changed."""


@frozen(kw_only=True, eq=False)
class Learner:
    """The model that learns, and its engine."""

    model: Any
    renderer: TemplateRenderer
    trainer: Trainer
    estimator: Estimator
    run: RunInfo
    recipe: Recipe

    @property
    def step(self) -> int:
        """The last trained step."""
        return self.trainer.step

    @property
    def overlaps(self) -> bool:
        """One process does one thing at a time."""
        return False

    def own_engine(self) -> LocalEngine | None:
        """Make an engine over the module itself; None when the user named another engine."""
        chosen, rollout = self.recipe.engine, self.run.config.rollout
        if chosen is not None and chosen.candidate.name not in OWN_ENGINES:
            return None
        # The default of max_num_seqs is for servers; in process every episode of a step can decode at once.
        sequences = rollout.max_num_seqs if "rollout.max_num_seqs" in self.run.user_keys else rollout.max_env_worker
        options = engine_options(self.recipe)
        return LocalEngine.from_module(
            self.model,
            max_model_len=rollout.max_model_len,
            max_num_seqs=options.max_num_seqs or sequences,
            dtype=self.trainer.options.dtype,
            kv_tokens=options.kv_tokens,
            prefill_tokens=options.prefill_tokens,
            version=self.step,
        )

    def weights(self) -> Any:
        """Return the module."""
        return self.model

    def reference_kl(self, samples: Sequence[Sample]) -> list[float]:
        """Return, per sample, the divergence from the reference summed over its trained tokens."""
        return self.trainer.reference_kl(samples)

    def update(self, rows: Sequence[WeightedSample], step: int) -> dict[str, float]:
        """Train on the weighed samples of a step."""
        return self.trainer.update([TrainRow(sample=r.sample, advantage=r.advantage, group=r.group) for r in rows], step)

    def save(self, directory: Path) -> None:
        """Write a checkpoint: a Hugging Face model, and the trainer's state next to it."""
        with explain_os_errors(directory):
            try:
                save_hf(self.model, self.renderer.tokenizer, directory)
                self.trainer.save(directory / TRAINER_STATE)
            except SafetensorError as error:
                # It reports a full disk with its own class.
                raise OSError(errno.EIO, str(error)) from error


def open_learner(
    run: RunInfo, recipe: Recipe, control: Control, *, checkpoint: Path | None, total_steps: int, trains: bool = True
) -> Learner:
    """Load everything; with a checkpoint, continue from it bit for bit. `trains` False leaves out what only updates need."""
    from astuner.rendering import load_renderer

    config = run.config
    torch.use_deterministic_algorithms(True, warn_only=True)
    disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers' own bars would run through the live table
    estimator = recipe.make_estimator(run, control.hooks)
    settings = run.native["model"]
    options = TrainerOptions.from_native(
        run.native["trainer"],
        total_steps=total_steps,
        loss_agg_mode=cast("Any", estimator.default_loss_agg_mode),
        dtype=compute_dtype(config.model.path, settings["dtype"]),
    )
    engine = engine_options(recipe)
    device = engine.device if engine.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    if engine.threads is not None:
        torch.set_num_threads(engine.threads)
    control.notify(f"loading {checkpoint or config.model.path}", "info")
    torch.manual_seed(run.seed)  # new adapters are drawn at random
    path = str(checkpoint or config.model.path)
    model = load_model(path, device=device, **settings)
    whole = settings["lora_rank"] == 0
    renderer = load_renderer(path if whole else config.model.path, tool_call_format=config.model.tool_call_format)
    needs_reference = trains and whole and _uses_reference(run, options)
    reference = load_model(config.model.path, settings["dtype"], device=device) if needs_reference else None
    trainer = Trainer(model, options, reference=reference)
    if checkpoint is not None and trains:
        if not (checkpoint / TRAINER_STATE).is_dir():
            raise UsageError(f"{checkpoint}: holds no {TRAINER_STATE}/, so training cannot continue from it")
        trainer.load(checkpoint / TRAINER_STATE, may_differ=MAY_DIFFER)
    return Learner(model=model, renderer=renderer, trainer=trainer, estimator=estimator, run=run, recipe=recipe)


def _uses_reference(run: RunInfo, options: TrainerOptions) -> bool:
    return (options.use_kl_loss and options.kl_loss_coef > 0) or run.config.trainer_common.algorithm.use_kl_in_reward
