"""What a run of verl holds on each GPU: the sharded trainer, and engines that sleep while it works. Imports no verl."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

from astuner.contract.errors import UsageError
from astuner.contract.protocols import RunInfo
from astuner.settings.config.trees import get
from astuner.settings.memory_estimate import (
    MAIN_MEMORY,
    EngineShare,
    MemoryPart,
    MemoryPlan,
    MemoryQuestion,
    ShardedTrainer,
    plan_engine_share,
    plan_sharded_trainer,
)
from astuner_verl.alignment import ACTOR, AUTO, MODEL, REF, ROLLOUT
from astuner_verl.native_configuration import Machine, resolve_configuration

BUCKET = f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes"
SHARE = f"{ROLLOUT}.gpu_memory_utilization"
TOKENS = f"{ACTOR}.ppo_max_token_len_per_gpu"
RECOMPUTE = f"{MODEL}.enable_gradient_checkpointing"


def plan_memory(run_info: RunInfo, question: MemoryQuestion) -> MemoryPlan:
    """Return the plan; raises `UsageError` if only the cluster knows its GPUs, `ConfigError` for what the machine cannot do."""
    hardware = question.hardware
    if hardware.here and os.environ.get("RAY_ADDRESS"):
        raise UsageError("RAY_ADDRESS names a cluster elsewhere; --gpus NxGB plans for its nodes")
    flash = not hardware.here or find_spec("flash_attn") is not None
    cuda = hardware.gpus > 0
    machine = Machine(device="cuda" if cuda else "cpu", gpus_per_node=hardware.gpus, flash_attention=flash, vllm=cuda)
    # The estimator's aggregation and the number of steps do not matter here.
    tree = resolve_configuration(run_info.native, machine, rollout=run_info.config.rollout, model="", loss_agg_mode=AUTO, steps=1)
    workers = get(tree, "trainer.n_gpus_per_node") * get(tree, "trainer.nnodes")
    gpus = tuple(range(workers)) if cuda else (MAIN_MEMORY,)
    item = 4 if get(tree, f"{ACTOR}.fsdp_config.mixed_precision.param_dtype") == "fp32" else 2
    parts = plan_sharded_trainer(question.shape, _describe_trainer(tree, run_info, question, gpus, item))
    engine = MemoryPlan(parts=tuple(_plan_copy(question, gpus, item)))
    if get(tree, f"{ROLLOUT}.name") != "transformers":
        engine = plan_engine_share(
            question.shape,
            hardware,
            EngineShare(
                gpus=gpus,
                share=get(tree, SHARE),
                spread=get(tree, f"{ROLLOUT}.tensor_model_parallel_size"),
                item=item,
                max_model_len=run_info.config.rollout.max_model_len,
                share_key=f"verl.{SHARE}",
                phases=("playing", "sending"),
                adapters=question.adapter_parameters,
            ),
        )
    sent = _count_sent_bytes(tree, question, item)
    why = "adapters alone" if question.lora_rank and not get(tree, f"{MODEL}.lora.merge") else f"verl.{BUCKET}"
    bucket = MemoryPart(name="weights in flight", bytes=sent, gpus=gpus, phases=("sending",), because=why)
    return MemoryPlan(parts=(*parts, *engine.parts, bucket), problems=engine.problems)


def _describe_trainer(
    tree: Mapping[str, Any], run_info: RunInfo, question: MemoryQuestion, gpus: tuple[int, ...], item: int
) -> ShardedTrainer:
    offload, longest = f"{ACTOR}.fsdp_config", run_info.config.rollout.max_model_len
    return ShardedTrainer(
        gpus=gpus,
        # Otherwise each pass computes one row.
        tokens=get(tree, TOKENS) if get(tree, f"{ACTOR}.use_dynamic_bsz") else 1,
        longest=longest,
        lora_rank=question.lora_rank,
        targets=question.target_modules,
        item=item,
        checkpointed=bool(get(tree, RECOMPUTE)),
        parameters_resident=not get(tree, f"{offload}.param_offload"),
        moments_resident=not get(tree, f"{offload}.optimizer_offload"),
        reference=bool(get(tree, f"{ACTOR}.use_kl_loss") or get(tree, "algorithm.use_kl_in_reward")),
        reference_resident=not get(tree, f"{REF}.fsdp_config.param_offload"),
        spread=get(tree, f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size"),
        tokens_key=f"verl.{TOKENS}",
        checkpoint_key=f"verl.{RECOMPUTE}",
    )


def _plan_copy(question: MemoryQuestion, gpus: tuple[int, ...], item: int) -> Iterator[MemoryPart]:
    """Yield what the transformers engine holds; its cache grows with what it plays, and is not counted."""
    size = (question.shape.parameters + question.adapter_parameters) * item
    yield MemoryPart(name="engine's weights", bytes=size, gpus=gpus, because="a model of transformers; its cache is not counted")


def _count_sent_bytes(tree: Mapping[str, Any], question: MemoryQuestion, item: int) -> int:
    """Return the size of one bucket: never smaller than the largest tensor."""
    if question.lora_rank and not get(tree, f"{MODEL}.lora.merge"):
        return question.adapter_parameters * item
    bucket: int = get(tree, BUCKET) << 20
    return max(bucket, question.shape.table_parameters * item)
