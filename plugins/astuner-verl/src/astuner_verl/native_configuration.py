"""The native configuration of a run on a known cluster: every `auto` gets its value. Imports no verl."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from attrs import frozen

from astuner.contract.errors import ConfigError, Problem
from astuner.contract.protocols import settle_sequences
from astuner.settings.config.rollout import Rollout
from astuner.settings.config.trees import get, put
from astuner.shared.install_hints import install_command
from astuner_verl.alignment import ACTOR, AUTO, MODE, MODEL, REF, ROLLOUT, SEPARATE, SHARE, SYNC, find_indivisible
from astuner_verl.process_environment import Device

LINEAR = frozenset({"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"})
"""Modules whose adapters vLLM applies in every model that verl trains."""
VLLM_RANK = 512
"""The largest rank of an adapter in vLLM."""


@frozen(kw_only=True)
class Machine:
    """What a run finds on its cluster."""

    device: Device
    gpus_per_node: int = 0
    """Of the node with the fewest; 0 without an accelerator."""
    flash_attention: bool = False
    vllm: bool = False
    sglang: bool = False

    @classmethod
    def here(cls, device: Device, gpus_per_node: int) -> Machine:
        """Check what is installed in this environment, which the workers share."""
        return cls(
            device=device,
            gpus_per_node=gpus_per_node,
            flash_attention=find_spec("flash_attn") is not None,
            vllm=find_spec("vllm") is not None,
            sglang=find_spec("sglang") is not None,
        )


def resolve_configuration(
    native: Mapping[str, Any], machine: Machine, *, rollout: Rollout, model: str, loss_agg_mode: str, steps: int
) -> dict[str, Any]:
    """Return the configuration with a value for every `auto`; raises `ConfigError` for what the machine cannot do.

    `model` is the source of the weights, `loss_agg_mode` the estimator's, `steps` those of the run.
    """
    tree: dict[str, Any] = copy.deepcopy(dict(native))
    cuda = machine.device == "cuda"
    precision = get(tree, f"{ACTOR}.fsdp_config.mixed_precision.param_dtype")
    precision = ("bf16" if cuda else "fp32") if precision == AUTO else precision
    engine = get(tree, f"{ROLLOUT}.name")
    engine = ("vllm" if machine.vllm and cuda else "transformers") if engine == AUTO else engine
    shares = not cuda if get(tree, SHARE) == AUTO else get(tree, SHARE)
    # It computes only in half precision, and takes no mask.
    flash = cuda and machine.flash_attention and precision != "fp32" and not shares
    attention = get(tree, f"{MODEL}.override_config.attn_implementation")
    packed = get(tree, f"{MODEL}.use_remove_padding")
    packed = (flash and attention in (AUTO, "flash_attention_2")) if packed == AUTO else packed
    # verl fills a pass up to a number of tokens without counting padding, which may be thirty times as much.
    dynamic = packed or shares or not cuda
    lora = bool(get(tree, f"{MODEL}.lora_rank"))
    values = {
        "trainer.device": machine.device,
        "trainer.n_gpus_per_node": min(8, machine.gpus_per_node) if cuda else 1,
        f"{ROLLOUT}.name": engine,
        f"{ROLLOUT}.dtype": {"fp32": "float32", "bf16": "bfloat16"}.get(precision, precision),
        f"{ROLLOUT}.load_format": "auto" if engine == "transformers" or lora else "dummy",
        f"{ACTOR}.use_torch_compile": cuda,
        f"{ACTOR}.fsdp_config.use_torch_compile": cuda,
        f"{REF}.fsdp_config.use_torch_compile": cuda,
        f"{ACTOR}.fsdp_config.mixed_precision.param_dtype": precision,
        f"{REF}.fsdp_config.mixed_precision.param_dtype": precision,
        f"{ACTOR}.loss_agg_mode": loss_agg_mode,
        f"{ACTOR}.checkpoint.save_contents": ["model", "optimizer", "extra", *([] if lora else ["hf_model"])],
        f"{MODEL}.use_remove_padding": packed,
        f"{ACTOR}.use_dynamic_bsz": dynamic,
        f"{ROLLOUT}.log_prob_use_dynamic_bsz": dynamic,
        f"{ACTOR}.calculate_entropy": not cuda,
        SHARE: shares,
        f"{MODEL}.lora.merge": not _takes_adapters(tree, engine),
        f"{MODEL}.override_config.attn_implementation": "flash_attention_2" if flash else "sdpa",
    }
    for key, value in values.items():
        if get(tree, key) == AUTO:
            put(tree, key, value)
    if get(tree, f"{ROLLOUT}.max_num_seqs") == AUTO:
        put(tree, f"{ROLLOUT}.max_num_seqs", settle_sequences(rollout, engines=count_engines(tree), gpu=cuda).value)
    put(tree, f"{MODEL}.path", model)
    put(tree, f"{ACTOR}.optim.total_training_steps", steps)
    put(tree, "trainer.total_training_steps", steps)
    for key in (f"{ACTOR}.ppo", f"{ROLLOUT}.log_prob", f"{REF}.log_prob"):
        if get(tree, f"{key}_micro_batch_size_per_gpu") is None:
            put(tree, f"{key}_micro_batch_size_per_gpu", 1)
    if not cuda and engine == "transformers":
        put(tree, f"{ROLLOUT}.free_cache_engine", False)
    problems = list(_problems(tree, machine))
    if problems:
        raise ConfigError(problems)
    return tree


def count_engines(tree: Mapping[str, Any]) -> int:
    """Return how many engines share the GPUs of a resolved configuration."""
    workers = get(tree, "trainer.n_gpus_per_node") * get(tree, "trainer.nnodes")
    return max(1, int(workers // get(tree, f"{ROLLOUT}.tensor_model_parallel_size")))


def _takes_adapters(tree: Mapping[str, Any], engine: str) -> bool:
    """Whether an engine applies adapters itself; otherwise it is given merged weights."""
    if engine == "vllm":
        targets, rank = get(tree, f"{MODEL}.target_modules"), get(tree, f"{MODEL}.lora_rank")
        known = targets == "all-linear" or (isinstance(targets, list) and set(targets) <= LINEAR)
        return known and rank <= VLLM_RANK
    # verl takes SGLang's adapters off when it sleeps; never tried here.
    return engine == "transformers"


def _problems(tree: Mapping[str, Any], machine: Machine) -> list[Problem]:
    found: list[Problem] = []
    workers, nodes = get(tree, "trainer.n_gpus_per_node"), get(tree, "trainer.nnodes")
    engine = get(tree, f"{ROLLOUT}.name")
    found += [Problem(key=f"verl.{path}", message=f"{message}.") for path, message in find_indivisible(tree)]
    if machine.device == "cuda" and workers > machine.gpus_per_node:
        message = (
            f"{workers} on each of {nodes} node(s), and the cluster has {machine.gpus_per_node} per node. Lower it, or add GPUs."
        )
        found.append(Problem(key="astuner.trainer_common.n_gpus_per_node", message=message))
    for name, there in (("vllm", machine.vllm), ("sglang", machine.sglang)):
        if engine == name and not there:
            remedy = install_command("astuner-verl") if name == "vllm" else "it needs its own environment, see docs/verl.md"
            message = f"the engine '{name}' is not installed: {remedy}; `auto` takes what there is."
            found.append(Problem(key="astuner.rollout.name", message=message))
        elif engine == name and machine.device == "cpu":
            message = f"verl gives no new weights to '{name}' without a GPU; choose `auto`, which is 'transformers' there."
            found.append(Problem(key="astuner.rollout.name", message=message))
    if get(tree, MODE) == SEPARATE and engine != "transformers":
        message = (
            f"the engine '{engine}' sleeps while the trainer works on the same GPUs, and separate GPUs are not supported (see "
            f"docs/verl.md). Set rollout.name: transformers, or {MODE}: {SYNC}."
        )
        found.append(Problem(key=f"verl.{MODE}", message=message))
    if machine.device == "cpu" and get(tree, f"{ACTOR}.strategy") != "fsdp2":
        found.append(Problem(key="verl.actor_rollout_ref.actor.strategy", message="without a GPU only fsdp2 computes."))
    attention = get(tree, f"{MODEL}.override_config.attn_implementation")
    if attention == "flash_attention_2" and not machine.flash_attention:
        message = "flash-attention is not installed: pip install flash-attn on a machine with a GPU, or set sdpa."
        found.append(Problem(key=f"verl.{MODEL}.override_config.attn_implementation", message=message))
    if attention == "flash_attention_2" and get(tree, f"{ACTOR}.fsdp_config.mixed_precision.param_dtype") == "fp32":
        message = "flash-attention computes in half precision only, and model.dtype is float32. Choose bfloat16, or sdpa."
        found.append(Problem(key=f"verl.{MODEL}.override_config.attn_implementation", message=message))
    if get(tree, f"{MODEL}.use_remove_padding") and not machine.flash_attention:
        message = "rows without padding need flash-attention, which is not installed: pip install flash-attn, or set False."
        found.append(Problem(key=f"verl.{MODEL}.use_remove_padding", message=message))
    if get(tree, SHARE) and (get(tree, f"{MODEL}.use_remove_padding") or not get(tree, f"{ACTOR}.use_dynamic_bsz")):
        message = (
            "rows that share prefixes need passes of several rows, without flash-attention: leave use_remove_padding False and "
            "use_dynamic_bsz True, or set this to false."
        )
        found.append(Problem(key=f"verl.{SHARE}", message=message))
    if get(tree, f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size") > 1 and not get(tree, f"{MODEL}.use_remove_padding"):
        message = "a sequence can be spread only without padding, which needs flash-attention on a GPU. Leave it at 1."
        found.append(Problem(key="astuner.trainer_common.ulysses_sequence_parallel_size", message=message))
    return found
