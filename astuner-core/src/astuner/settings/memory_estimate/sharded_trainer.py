"""Trainers that shard a model over GPUs (FSDP) and compute activations again layer by layer."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from astuner.settings.memory_estimate.model_shape import ModelShape
from astuner.settings.memory_estimate.parts import PHASES, MemoryPart, Phase

FLOAT32 = 4
LOGIT = 8
"""Bytes of a logit and its gradient in float32."""


@frozen(kw_only=True)
class ShardedTrainer:
    """What decides the memory of such a trainer."""

    gpus: Sequence[int]
    """That the model is sharded over."""
    tokens: int
    """Of one pass, on one GPU."""
    longest: int
    """Tokens of the longest row, which is never cut."""
    lora_rank: int
    targets: str | Sequence[str]
    item: int
    """Bytes of a number in matrix products."""
    checkpointed: bool
    """Whether activations are computed again in the backward pass."""
    parameters_resident: bool
    """Whether weights stay on the GPU while episodes are played."""
    moments_resident: bool
    reference: bool
    """Whether a second model is kept, frozen."""
    reference_resident: bool
    spread: int = 1
    """GPUs that one sequence is spread over."""
    tokens_key: str
    checkpoint_key: str


def plan_sharded_trainer(shape: ModelShape, trainer: ShardedTrainer) -> list[MemoryPart]:
    """Return what each GPU of the trainer holds."""
    gpus, number = trainer.gpus, len(trainer.gpus)
    adapters = shape.count_adapter_parameters(trainer.lora_rank, trainer.targets) if trainer.lora_rank else 0
    held, trained = shape.parameters + adapters, adapters or shape.parameters
    training: tuple[Phase, ...] = ("training",)
    weights_held: tuple[Phase, ...] = PHASES if trainer.parameters_resident else ("sending", "training")
    more = ("trainer_common.n_gpus_per_node higher", "model.lora_rank above 0")

    def share(name: str, size: int, phases: tuple[Phase, ...], because: str, keys: tuple[str, ...] = more) -> MemoryPart:
        return MemoryPart(name=name, bytes=size // number, gpus=gpus, phases=phases, because=because, keys=keys)

    parts = [
        share("weights", FLOAT32 * held, weights_held, f"float32, over {number} GPU{'s' * (number > 1)}"),
        share("gradients", FLOAT32 * trained, training, f"float32, of {trained / 1e6:,.0f} million trained parameters"),
        share("optimizer", 2 * FLOAT32 * trained, PHASES if trainer.moments_resident else training, "two moments in float32"),
    ]
    if trainer.reference and not adapters:
        phases = PHASES if trainer.reference_resident else training
        size, because = FLOAT32 * shape.parameters, "a frozen copy, for the divergence"
        parts.append(share("reference model", size, phases, because, ("trainer_common.use_kl_loss false",)))
    tokens = max(trainer.tokens, -(-trainer.longest // trainer.spread))
    gathered = 2 * trainer.item * max(shape.layer_parameters, shape.table_parameters * (2 - shape.tied))
    layer = trainer.item * (4 * shape.width + 3 * shape.query_size + 2 * shape.key_size + 4 * shape.inner)
    kept = trainer.item * shape.layers * shape.width + layer if trainer.checkpointed else layer * shape.layers
    shorter = (
        f"{trainer.tokens_key} lower",
        "rollout.max_model_len lower",
        "trainer_common.ulysses_sequence_parallel_size higher",
    )
    checkpoint = () if trainer.checkpointed else (f"{trainer.checkpoint_key} true",)
    why = f"{tokens:,} tokens, " + ("layers computed again" if trainer.checkpointed else "all layers kept")
    return [
        *parts,
        MemoryPart(name="gathered weights", bytes=gathered, gpus=gpus, phases=training, because="two units of FSDP, whole"),
        MemoryPart(
            name="activations", bytes=tokens * kept, gpus=gpus, phases=training, because=why, keys=(*checkpoint, *shorter)
        ),
        MemoryPart(
            name="logits",
            bytes=tokens * shape.vocabulary * LOGIT,
            gpus=gpus,
            phases=training,
            because=f"{tokens:,} tokens x {shape.vocabulary:,} ids, with their gradient, in float32",
            keys=shorter,
        ),
    ]
