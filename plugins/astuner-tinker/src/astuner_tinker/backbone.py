"""The backbone `tinker`: episodes here, weights on a server that speaks the Tinker API. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, ClassVar

from astuner.contract.errors import UsageError
from astuner.contract.protocols import BackboneTraits, Control, RunInfo, SettledValue, TaskSource
from astuner.contract.schema import Event
from astuner.runs.training import LOOP_HONOURS, LOSS_HONOURS
from astuner_tinker.options import ALIGNMENT, ALPHA, find_url, read_options

if TYPE_CHECKING:
    from astuner.episodes.rollout.recipe import Recipe

ELSEWHERE = "the server decides where and how it computes"
NO_ENTROPY = "the Tinker API gives no entropy, and no gradient of it"


class TinkerBackbone:
    """Trains LoRA adapters on the hosted service, or on a colleague's server."""

    name: ClassVar[str] = "tinker"
    traits = BackboneTraits(
        brings_engines=("tinker",),
        honours=(
            *LOOP_HONOURS,
            *(key for key in LOSS_HONOURS if "entropy" not in key),
            "model.adapters.*",
            "rollout.name",
            "trainer_common.optim.*",
            "trainer_common.grad_clip",
            "trainer_common.mini_batch_num",
            "trainer_common.loss_agg_mode",
            "trainer_common.use_kl_loss",
            "trainer_common.kl_loss_*",
            "trainer_common.algorithm.use_kl_in_reward",
            "trainer_common.algorithm.kl_penalty",
            "trainer_common.algorithm.kl_ctrl.kl_coef",
            "data.max_response_length",
        ),
        inapplicable={
            "model.dtype": ELSEWHERE,
            "trainer_common.nnodes": ELSEWHERE,
            "trainer_common.n_gpus_per_node": ELSEWHERE,
            "trainer_common.fsdp_config.*": ELSEWHERE,
            "trainer_common.ulysses_sequence_parallel_size": ELSEWHERE,
            "rollout.tensor_model_parallel_size": ELSEWHERE,
            "rollout.n_vllm_engine": ELSEWHERE,
            "rollout.max_num_seqs": "tinker.max_in_flight says how many requests are under way",
            "rollout.multi_turn.expected_steps": "the batch is built from the samples that there are",
        },
        refuses={
            "model.lora_alpha": ALPHA,
            "model.target_modules": "tinker.train_attn, train_mlp and train_unembed choose the layers",
            "model.opponents.*": "episodes are sampled from the newest weights alone; the backbone 'local' has opponents",
            "trainer_common.algorithm.entropy_ctrl.*": NO_ENTROPY,
        },
        alignment=ALIGNMENT,
        settles_values=True,
    )

    @classmethod
    def settle_values(cls, run_info: RunInfo) -> Sequence[SettledValue]:
        """Return what was measured of the server in the last day, and what a step may cost; asks no server."""
        from importlib.metadata import version

        from astuner_tinker.probe import read_facts
        from astuner_tinker.spending import bound_step_cost, find_prices

        options, config = read_options(run_info.native), run_info.config
        model, found = options.base_model or config.model.path, []
        if (url := find_url(options)) is not None:
            facts = read_facts(url, model, version("tinker"))
            because = "it is measured when a run starts" if facts is None else facts.describe()
            found.append(SettledValue(key="tinker.base_url", value=url, because=because))
        prices, source = find_prices(options, model)
        if prices is not None:
            bound = f"a training step costs at most ${bound_step_cost(run_info, prices):.2f} where an episode is one call"
            found.append(SettledValue(key="tinker.max_spend", value=options.max_spend, because=f"{bound}, by prices {source}"))
        return found

    def train(self, run: RunInfo, tasks: TaskSource, recipe: Recipe, control: Control) -> Generator[Event]:
        """Yield a report per step, validations and checkpoints as they are due."""
        from astuner.runs.training.loop import checkpoint_to_resume, train
        from astuner_tinker.learner import open_learner
        from astuner_tinker.spending import SpendControl

        checkpoint = checkpoint_to_resume(run, control)
        with open_learner(run, recipe, control, checkpoint=checkpoint, total_steps=tasks.total_steps) as learner:
            learner.ledger.check()
            yield from train(run, tasks, recipe, SpendControl(control, learner.ledger), learner)
            if learner.step < tasks.total_steps and not control.stop:
                learner.ledger.check()

    def evaluate(
        self, run: RunInfo, tasks: TaskSource, recipe: Recipe, checkpoint: Path | None, control: Control
    ) -> Generator[Event]:
        """Yield the report of one validation pass."""
        from astuner.runs.training.loop import evaluate
        from astuner_tinker.learner import open_learner

        with open_learner(run, recipe, control, checkpoint=checkpoint, total_steps=1, trains=False) as learner:
            yield from evaluate(run, tasks, recipe, control, learner)

    def export(self, checkpoint: Path, out: Path, *, merge_lora: bool, dtype: str | None = None) -> None:
        """Write a checkpoint's adapters, or the merged model; downloads what it does not hold.

        The reference to the state goes along, so that a run with this `model.path` begins there.
        """
        from astuner.runs.training import export_model
        from astuner_tinker.checkpoints import WEIGHTS, download_checkpoint

        if merge_lora and find_spec("peft") is None:
            raise UsageError("--merge-lora needs peft: pip install 'astuner-tinker[export]'")
        with TemporaryDirectory() as made:
            held = (checkpoint / WEIGHTS).is_file()
            source = checkpoint if held else download_checkpoint(checkpoint, Path(made))
            export_model(source, out, merge_lora=merge_lora, dtype=dtype)

    def close(self) -> None:
        """Nothing to do: `train` closes what it opened on every path."""
