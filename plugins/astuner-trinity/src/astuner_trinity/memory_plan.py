"""What a run of Trinity holds on each GPU: engines and a sharded trainer, on GPUs of their own or on one. Imports no Trinity."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from astuner.contract.errors import UsageError
from astuner.contract.protocols import RunInfo
from astuner.settings.config.trees import get
from astuner.settings.memory_estimate import (
    PHASES,
    EngineShare,
    MemoryPart,
    MemoryPlan,
    MemoryQuestion,
    ShardedTrainer,
    plan_engine_share,
    plan_sharded_trainer,
)
from astuner_trinity.native_configuration import place_gpus
from astuner_trinity.native_keys import WITH_REFERENCE
from astuner_trinity.open_values import AUTO
from astuner_trinity.process_environment import Machine

ENGINE = "explorer.rollout_model"
RECOMPUTE = "trainer.trainer_config.model.enable_gradient_checkpointing"
TOKENS = "trainer.max_token_len_per_gpu"


def plan_memory(run_info: RunInfo, question: MemoryQuestion) -> MemoryPlan:
    """Return the plan; raises `UsageError` if only the cluster knows its GPUs, `ConfigError` for what the machine cannot do."""
    hardware = question.hardware
    if hardware.here and os.environ.get("RAY_ADDRESS"):
        raise UsageError("RAY_ADDRESS names a cluster elsewhere; --gpus NxGB plans for its nodes")
    if not hardware.gpus:
        raise UsageError("Trinity computes on GPUs, and there is none here; --gpus NxGB plans for a node with some")
    flash = not hardware.here or find_spec("flash_attn") is not None
    tree: dict[str, Any] = copy.deepcopy(dict(run_info.native))
    place_gpus(tree, Machine(gpus=hardware.gpus, nodes=run_info.config.trainer_common.nnodes, flash_attention=flash))
    engine, dtype = get(tree, ENGINE), get(tree, f"{ENGINE}.dtype")
    item = 4 if dtype == "float32" else 2
    spread = engine["tensor_parallel_size"] * engine["pipeline_parallel_size"]
    playing = spread * engine["data_parallel_size"] * engine["engine_num"]
    total = get(tree, "cluster.node_num") * get(tree, "cluster.gpu_per_node")
    together = tree["mode"] == "colocate"
    trainer_gpus = (0,) if together else tuple(range(playing, total)) if tree["mode"] == "both" else tuple(range(total))
    parts: list[MemoryPart] = []
    if tree["mode"] in ("both", "colocate", "train"):
        parts += plan_sharded_trainer(question.shape, _describe_trainer(tree, run_info, question, trainer_gpus, item))
    served = MemoryPlan()
    if tree["mode"] != "train":
        served = plan_engine_share(
            question.shape,
            hardware,
            EngineShare(
                gpus=(0,) if together else tuple(range(playing)),
                share=engine["gpu_memory_utilization"],
                spread=spread,
                item=item,
                max_model_len=run_info.config.rollout.max_model_len,
                share_key=f"trinity.{ENGINE}.gpu_memory_utilization",
                # It does not sleep while the trainer works.
                phases=PHASES,
                adapters=question.adapter_parameters,
            ),
        )
    return MemoryPlan(parts=(*parts, *served.parts), problems=served.problems)


def _describe_trainer(
    tree: Mapping[str, Any], run_info: RunInfo, question: MemoryQuestion, gpus: tuple[int, ...], item: int
) -> ShardedTrainer:
    trainer, hardware = tree["trainer"], question.hardware
    packed = trainer["use_remove_padding"]
    if packed == AUTO:
        packed = not hardware.here or find_spec("flash_attn") is not None
    own: Any = (trainer.get("trainer_config") or {}).get("model") or {}
    return ShardedTrainer(
        gpus=gpus,
        # Otherwise each pass computes one row.
        tokens=trainer["max_token_len_per_gpu"] if packed else 1,
        longest=run_info.config.rollout.max_model_len,
        lora_rank=question.lora_rank,
        targets=question.target_modules,
        item=item,
        checkpointed=own.get("enable_gradient_checkpointing", True),
        parameters_resident=not trainer["param_offload"],
        moments_resident=not trainer["optimizer_offload"],
        reference=get(tree, "algorithm.algorithm_type") == WITH_REFERENCE,
        reference_resident=True,
        spread=trainer["ulysses_sequence_parallel_size"],
        tokens_key=f"trinity.{TOKENS}",
        checkpoint_key=f"trinity.{RECOMPUTE}",
    )
