"""The backbone `gepa`: tunes the system prompts of a workflow, through any engine, and no weights."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from astuner.contract.errors import UsageError
from astuner.contract.protocols import BackboneTraits, Control, RunInfo, TaskSource
from astuner.contract.schema import Event, ValidationReport
from astuner.shared.known_packages import read_known_packages
from astuner_gepa.options import ALIGNMENT, read_options

if TYPE_CHECKING:
    from astuner.episodes.rollout.recipe import Recipe

NO_WEIGHTS = "gepa tunes prompts, and no weights"
NO_ADVANTAGES = "gepa compares mean rewards, so there are no advantages"
ONE_ENGINE = "gepa uses one engine"
VALIDATES = "gepa validates the workflow's own prompts, and new ones that are better on a batch"


class GepaBackbone:
    """Searches for better prompts by GEPA: an LLM reads what the agent did on a batch of tasks, and writes new ones."""

    name: ClassVar[str] = "gepa"
    traits = BackboneTraits(
        default_engines=read_known_packages().engine_order,
        honours=(
            "rollout.name",
            "rollout.max_num_seqs",
            "trainer_common.save_freq",
            "trainer_common.keep_best",
            "trainer_common.max_checkpoints_to_keep",
        ),
        refuses={"data.sampler": "a proposal is compared with the old prompt on tasks in their order"},
        inapplicable={
            "trainer_common.*": NO_WEIGHTS,
            "trainer_common.test_freq": VALIDATES,
            "trainer_common.val_before_train": VALIDATES,
            "trainer_common.algorithm.adv_estimator": NO_ADVANTAGES,
            "trainer_common.algorithm.norm_adv_by_std_in_grpo": NO_ADVANTAGES,
            "trainer_common.algorithm.norm_adv_by_agent": NO_ADVANTAGES,
            "trainer_common.algorithm.overlong_filter": NO_WEIGHTS,
            "model.dtype": "the engine loads the model unchanged",
            "model.lora_rank": NO_WEIGHTS,
            "model.lora_alpha": NO_WEIGHTS,
            "model.target_modules": NO_WEIGHTS,
            "model.adapters.*": NO_WEIGHTS,
            "model.opponents.*": NO_WEIGHTS,
            "rollout.n_vllm_engine": ONE_ENGINE,
            "rollout.tensor_model_parallel_size": ONE_ENGINE,
            "rollout.multi_turn.expected_steps": "gepa builds no training batch",
        },
        alignment=ALIGNMENT,
        trains=False,
    )

    def train(self, run: RunInfo, tasks: TaskSource, recipe: Recipe, control: Control) -> Generator[Event]:
        """Yield a report per evaluation on a batch, validations and checkpoints as they are due."""
        from astuner_gepa.tuning import tune_prompts

        yield from tune_prompts(run, tasks, recipe, control, read_options(run.native))

    def evaluate(
        self, run: RunInfo, tasks: TaskSource, recipe: Recipe, checkpoint: Path | None, control: Control
    ) -> Generator[Event]:
        """Yield the report of one validation pass with the prompts of a checkpoint, or with the workflow's own."""
        from astuner.episodes.rollout.metrics import compute_validation_metrics
        from astuner.runs.training.rollouts import Rollouts
        from astuner_gepa.prompts import PromptLearner
        from astuner_gepa.results import read_rewriter

        learner = PromptLearner()
        learner.rewriter = None if checkpoint is None else read_rewriter(checkpoint)
        with closing(Rollouts(run, recipe, control, learner)) as rollouts:  # type: ignore[arg-type]  # it has no weights
            groups = rollouts.validate(tasks.validation(), 0)
        if groups:
            yield ValidationReport(step=0, metrics=compute_validation_metrics(groups), groups=tuple(groups))

    def export(self, checkpoint: Path, out: Path, *, merge_lora: bool, dtype: str | None = None) -> None:
        """Refuse: there are no weights."""
        raise UsageError(f"the backbone 'gepa' trains no weights to export; the prompts are in {checkpoint / 'prompts.json'}")

    def close(self) -> None:
        """Nothing to do: `train` closes what it opened on every path."""
