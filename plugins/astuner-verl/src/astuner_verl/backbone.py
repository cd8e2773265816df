"""The backbone `verl`: rollouts and training spread over Ray's workers. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from astuner.contract.protocols import BackboneTraits, Control, RunInfo, SettledValue, TaskSource, WarmStartJob, WarmStartResult
from astuner.contract.schema import Event
from astuner.runs.training import ENTROPY_TARGET_HONOURS, LOOP_HONOURS, LOSS_HONOURS
from astuner_verl.alignment import ALIGNMENT

if TYPE_CHECKING:
    from astuner.episodes.rollout.recipe import Recipe
    from astuner.settings.memory_estimate import MemoryPlan, MemoryQuestion


class VerlBackbone:
    """Trains with verl 0.9, on GPUs or on the CPU."""

    name: ClassVar[str] = "verl"
    traits = BackboneTraits(
        brings_engines=("vllm", "sglang", "transformers"),
        honours=(
            *LOOP_HONOURS,
            *LOSS_HONOURS,
            *ENTROPY_TARGET_HONOURS,
            "trainer_common.optim.lr_warmup_steps",
            "trainer_common.optim.lr_scheduler_type",
        ),
        inapplicable={
            "rollout.n_vllm_engine": "there are as many engines as fit: the run's GPUs divided by tensor_model_parallel_size",
            "rollout.multi_turn.expected_steps": "the batch is built from the samples that there are",
        },
        alignment=ALIGNMENT,
        warm_starts=True,
        checks_warm_starts=True,
        settles_values=True,
        plans_memory=True,
    )

    @classmethod
    def settle_values(cls, run_info: RunInfo) -> Sequence[SettledValue]:
        """Return what verl's open settings become on this machine; none for a cluster elsewhere."""
        from astuner_verl.machine_settings import settle_values

        return settle_values(run_info)

    @classmethod
    def plan_memory(cls, run_info: RunInfo, question: MemoryQuestion) -> MemoryPlan:
        """Return what each GPU of the trainer and the engines holds."""
        from astuner_verl.memory_plan import plan_memory

        return plan_memory(run_info, question)

    def train(self, run: RunInfo, tasks: TaskSource, recipe: Recipe, control: Control) -> Generator[Event]:
        """Yield a report per step, validations and checkpoints as they are due."""
        from astuner.runs.training.loop import checkpoint_to_resume, train
        from astuner_verl.learner import open_learner

        checkpoint = checkpoint_to_resume(run, control)
        with open_learner(run, recipe, control, checkpoint=checkpoint, total_steps=tasks.total_steps) as learner:
            yield from train(run, tasks, recipe, control, learner)

    def evaluate(
        self, run: RunInfo, tasks: TaskSource, recipe: Recipe, checkpoint: Path | None, control: Control
    ) -> Generator[Event]:
        """Yield the report of one validation pass."""
        from astuner.runs.training.loop import evaluate
        from astuner_verl.learner import open_learner

        with open_learner(run, recipe, control, checkpoint=checkpoint, total_steps=1, trains=False) as learner:
            yield from evaluate(run, tasks, recipe, control, learner)

    def export(self, checkpoint: Path, out: Path, *, merge_lora: bool, dtype: str | None = None) -> None:
        """Write a checkpoint as a Hugging Face model."""
        from astuner.runs.training import export_model

        export_model(checkpoint, out, merge_lora=merge_lora, dtype=dtype)

    def check_warm_start(self, run: RunInfo, job: WarmStartJob) -> None:
        """Raise what can be known before Ray starts."""
        from astuner_verl.warm_start.training import check_warm_start

        check_warm_start(run, job)

    def warm_start(self, run: RunInfo, job: WarmStartJob, say: Callable[[str], object]) -> WarmStartResult:
        """Train on demonstrations, with the workers and the loss of a run."""
        from astuner_verl.warm_start.training import warm_start

        return warm_start(run, job, say)

    def close(self) -> None:
        """Nothing to do: `train` closes what it opened on every path."""
