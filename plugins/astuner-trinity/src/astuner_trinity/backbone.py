"""The backbone `trinity`: an explorer and a trainer that need not wait for each other. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from astuner.contract.protocols import BackboneTraits, Control, RunInfo, TaskSource
from astuner.contract.schema import Event
from astuner.runs.training import LOSS_HONOURS
from astuner_trinity.alignment import ALIGNMENT
from astuner_trinity.own_venv.trinity_venv import OWN_VENV

if TYPE_CHECKING:
    from astuner.episodes.rollout.recipe import Recipe
    from astuner.settings.memory_estimate import MemoryPlan, MemoryQuestion

NO_TARGET = "the weight of the entropy follows no target"
NO_FILTER = "the explorer draws a step's tasks before it knows their rewards"


class TrinityBackbone:
    """Trains with Trinity-RFT 0.6 and verl 0.8."""

    name: ClassVar[str] = "trinity"
    traits = BackboneTraits(
        brings_engines=("vllm",),
        honours=(
            *LOSS_HONOURS,
            "trainer_common.test_freq",
            "trainer_common.val_before_train",
            "trainer_common.token_record.most_gb",
        ),
        inapplicable={
            "trainer_common.algorithm.entropy_ctrl.delta": NO_TARGET,
            "trainer_common.algorithm.entropy_ctrl.most": NO_TARGET,
            "trainer_common.algorithm.kl_penalty": "the divergence cannot be part of the reward",
            "trainer_common.algorithm.kl_ctrl.kl_coef": "the divergence cannot be part of the reward",
            "trainer_common.algorithm.filter_groups.max_num_gen_batches": NO_FILTER,
            "rollout.players": "Trinity's runners are the workers; trinity.explorer.runner_per_model sets how many",
            "gateway.port": "each process that plays episodes has its own gateway, on a free port",
        },
        refuses={"data.sampler": "the explorer draws a step's tasks before it knows how earlier ones went"},
        alignment=ALIGNMENT,
        own_venv=OWN_VENV,
        plans_memory=True,
    )

    @classmethod
    def plan_memory(cls, run_info: RunInfo, question: MemoryQuestion) -> MemoryPlan:
        """Return what each GPU of the engines and of the trainer holds."""
        from astuner_trinity.memory_plan import plan_memory

        return plan_memory(run_info, question)

    def train(self, run: RunInfo, tasks: TaskSource, recipe: Recipe, control: Control) -> Generator[Event]:
        """Yield a report per step of the trainer, validations and checkpoints as they come."""
        from astuner_trinity.session import Session

        yield from Session(run=run, tasks=tasks, recipe=recipe, control=control).train()

    def evaluate(
        self, run: RunInfo, tasks: TaskSource, recipe: Recipe, checkpoint: Path | None, control: Control
    ) -> Generator[Event]:
        """Yield the report of one validation pass, played in Trinity's mode bench."""
        from astuner_trinity.session import Session

        yield from Session(run=run, tasks=tasks, recipe=recipe, control=control).evaluate(checkpoint)

    def export(self, checkpoint: Path, out: Path, *, merge_lora: bool, dtype: str | None = None) -> None:
        """Write a checkpoint as a Hugging Face model."""
        from astuner.runs.training import export_model
        from astuner_trinity.checkpoints import STATE

        export_model(checkpoint, out, merge_lora=merge_lora, dtype=dtype, leave_out=(STATE,))

    def close(self) -> None:
        """Nothing to do: `train` closes what it opened on every path."""
