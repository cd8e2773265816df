"""The backbone `local`: rollouts and training on one machine, in one process, without any service."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from astuner.contract.protocols import (
    BackboneTraits,
    Control,
    RunInfo,
    SettledValue,
    TaskSource,
    TinyModelJob,
    WarmStartJob,
    WarmStartResult,
)
from astuner.contract.schema import Event
from astuner.runs.training import ENTROPY_TARGET_HONOURS, LOOP_HONOURS, LOSS_HONOURS
from astuner.shared.processes import gpu_count
from astuner_local.alignment import ALIGNMENT
from astuner_local.device import read_device, weigh_engine

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from astuner.episodes.rollout.recipe import Recipe
    from astuner.settings.memory_estimate import MemoryPlan, MemoryQuestion


class LocalBackbone:
    """Trains on the CPU, or on the one GPU that torch finds."""

    name: ClassVar[str] = "local"
    traits = BackboneTraits(
        default_engines=("local",),
        honours=(
            *LOOP_HONOURS,
            *LOSS_HONOURS,
            *ENTROPY_TARGET_HONOURS,
            "model.adapters.*",
            "model.opponents.*",
            "rollout.max_num_seqs",
            "rollout.name",
            "trainer_common.algorithm.use_kl_in_reward",
            "trainer_common.algorithm.kl_ctrl.kl_coef",
        ),
        inapplicable={
            "trainer_common.nnodes": "local is one machine",
            "trainer_common.n_gpus_per_node": "local takes the one device that torch finds",
            "trainer_common.fsdp_config.*": "nothing is sharded on one device",
            "rollout.n_vllm_engine": "the engine 'local' works in the trainer's own process; 'vllm' starts servers",
            "rollout.multi_turn.expected_steps": "the batch is built from the samples that there are",
        },
        refuses={
            "rollout.tensor_model_parallel_size": "the engine 'local' runs on one device; 'vllm' spreads over several",
            "trainer_common.ulysses_sequence_parallel_size": "a sequence is computed on one device",
        },
        alignment=ALIGNMENT,
        warm_starts=True,
        makes_tiny_models=True,
        settles_values=True,
        plans_memory=True,
    )

    @classmethod
    def settle_values(cls, run_info: RunInfo) -> Sequence[SettledValue]:
        """Return what the backbone's own engine and trainer do on this machine."""
        rollout, found = run_info.config.rollout, []
        if rollout.name in ("auto", cls.name) and rollout.max_num_seqs == "auto":
            because = "the engine works in the trainer's process, on every episode at once"
            found.append(SettledValue(key="rollout.max_num_seqs", value=rollout.max_env_worker, because=because))
        gpu = read_device(run_info) != "cpu" and gpu_count() > 0
        if gpu and rollout.name == "auto":
            found.append(weigh_engine(run_info))
        if run_info.native["trainer"]["deterministic"] is None:
            because = "they are slow on a GPU" if gpu else "on a CPU they cost nothing"
            found.append(SettledValue(key="local.trainer.deterministic", value=not gpu, because=because))
        return found

    @classmethod
    def plan_memory(cls, run_info: RunInfo, question: MemoryQuestion) -> MemoryPlan:
        """Return what the trainer and the backbone's own engine hold."""
        from astuner_local.memory_plan import plan_memory

        return plan_memory(run_info, question)

    def train(self, run: RunInfo, tasks: TaskSource, recipe: Recipe, control: Control) -> Generator[Event]:
        """Yield a report per step, validations and checkpoints as they are due."""
        from astuner.runs.training.loop import checkpoint_to_resume, train
        from astuner_local.engine.torch_settings import restore_torch_settings
        from astuner_local.opening import open_learner

        with restore_torch_settings():
            checkpoint = checkpoint_to_resume(run, control)
            learner = open_learner(run, recipe, control, checkpoint=checkpoint, total_steps=tasks.total_steps)
            yield from train(run, tasks, recipe, control, learner)

    def evaluate(
        self, run: RunInfo, tasks: TaskSource, recipe: Recipe, checkpoint: Path | None, control: Control
    ) -> Generator[Event]:
        """Yield the report of one validation pass."""
        from astuner.runs.training.loop import evaluate
        from astuner_local.engine.torch_settings import restore_torch_settings
        from astuner_local.opening import open_learner

        with restore_torch_settings():
            learner = open_learner(run, recipe, control, checkpoint=checkpoint, total_steps=1, trains=False)
            yield from evaluate(run, tasks, recipe, control, learner)

    def export(self, checkpoint: Path, out: Path, *, merge_lora: bool, dtype: str | None = None) -> None:
        """Write a checkpoint as a Hugging Face model."""
        from astuner_local.trainer.export import export

        export(checkpoint, out, merge_lora=merge_lora, dtype=dtype)

    def warm_start(self, run: RunInfo, job: WarmStartJob, say: Callable[[str], object]) -> WarmStartResult:
        """Train on demonstrations, with the trainer of a run."""
        from astuner_local.engine.torch_settings import restore_torch_settings
        from astuner_local.trainer.supervised import warm_start

        with restore_torch_settings():
            return warm_start(run, job, say)

    def make_tiny_tokenizer(self, job: TinyModelJob) -> PreTrainedTokenizerFast:
        """Write the tokenizer of a tiny model for a task, and return it."""
        from astuner_local.tiny.task_tokenizer import make_tiny_tokenizer

        return make_tiny_tokenizer(job)

    def make_tiny_model(self, job: TinyModelJob) -> None:
        """Write a tiny model with random weights next to its tokenizer."""
        from astuner_local.tiny.task_model import make_tiny_model

        make_tiny_model(job)

    def close(self) -> None:
        """Nothing to do: `train` closes what it opened on every path."""
