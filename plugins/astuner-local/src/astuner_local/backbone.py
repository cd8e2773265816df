"""The backbone `local`: rollouts and training on one machine, in one process, without any service."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from astuner.protocols import Control, RunInfo, TaskSource
from astuner.schema import Event

if TYPE_CHECKING:
    from astuner.rollout.recipe import Recipe


class LocalBackbone:
    """Trains on the CPU, or on the one GPU that torch finds."""

    name: ClassVar[str] = "local"
    honours: ClassVar[tuple[str, ...]] = (
        "model.*",
        "data.*",
        "rollout.max_num_seqs",
        "rollout.name",
        "rollout.multi_turn.max_*",
        "trainer_common.algorithm.use_kl_in_reward",
        "trainer_common.algorithm.kl_*",
        "trainer_common.algorithm.filter_groups",
        "trainer_common.algorithm.rollout_is_threshold",
        "trainer_common.optim.*",
        "trainer_common.*_loss*",
        "trainer_common.kl_*",
        "trainer_common.clip_ratio_*",
        "trainer_common.grad_clip",
        "trainer_common.loss_agg_mode",
        "trainer_common.mini_batch_num",
        "trainer_common.save_freq",
        "trainer_common.test_freq",
        "trainer_common.val_*",
        "trainer_common.total_*",
        "trainer_common.keep_best",
        "trainer_common.max_checkpoints_to_keep",
    )
    inapplicable: ClassVar[Mapping[str, str]] = {
        "debug.*": "only the backbone debug reads it",
        "trainer_common.nnodes": "local is one machine",
        "trainer_common.n_gpus_per_node": "local takes the one device that torch finds",
        "trainer_common.fsdp_config.*": "nothing is sharded on one device",
        "rollout.n_vllm_engine": "rollouts run in the trainer's own process",
        "rollout.multi_turn.expected_steps": "the batch is built from the samples that there are",
    }

    def train(self, run: RunInfo, tasks: TaskSource, recipe: Recipe, control: Control) -> Generator[Event]:
        """Yield a report per step, validations and checkpoints as they are due."""
        from astuner_local.training import train

        yield from train(run, tasks, recipe, control)

    def evaluate(
        self, run: RunInfo, tasks: TaskSource, recipe: Recipe, checkpoint: Path | None, control: Control
    ) -> Generator[Event]:
        """Yield the report of one validation pass."""
        from astuner_local.training import evaluate

        yield from evaluate(run, tasks, recipe, checkpoint, control)

    def export(self, checkpoint: Path, out: Path, *, merge_lora: bool) -> None:
        """Write a checkpoint as a Hugging Face model."""
        from astuner_local.trainer.export import export

        export(checkpoint, out, merge_lora=merge_lora)

    def close(self) -> None:
        """Nothing outlives `train`, which closes what it opened on every path."""
