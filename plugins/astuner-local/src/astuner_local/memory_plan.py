"""What a run of `local` holds: the trainer, and the engine in its process. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

from astuner.contract.protocols import RunInfo
from astuner.settings.memory_estimate import MAIN_MEMORY, PHASES, MemoryPart, MemoryPlan, MemoryQuestion, ModelShape, Phase
from astuner_local.device import read_device
from astuner_local.forward.family_names import FAMILIES
from astuner_local.trainer.pass_memory import FLOAT32, PassOptions, TrainingMemory, measure_states, measure_training
from astuner_local.trainer.pass_size import CPU_CACHE_BYTES, count_affordable_tokens, count_logits

TRAINING: tuple[Phase, ...] = ("training",)
KEPT_SEQUENCES = 4
"""Sequences in the cache for each that is decoded: sessions keep theirs between calls."""
SAMPLED = 3
"""Copies of the logits while the engine samples."""
RECOMPUTE = "local.trainer.recompute_activations true"
SHORTER = ("local.trainer.micro_batch_tokens lower", "rollout.max_model_len lower")
FEWER = ("model.lora_rank above 0", "local.trainer.moment_dtype bfloat16", "local.trainer.weight_dtype bfloat16")


def plan_memory(run_info: RunInfo, question: MemoryQuestion) -> MemoryPlan:
    """Return the parts of the trainer's device."""
    return MemoryPlan(parts=tuple(_list_parts(run_info, question)))


def read_pass_options(native: Mapping[str, Any], question: MemoryQuestion, *, on_gpu: bool) -> PassOptions:
    """Return what the native configuration says of a pass."""
    trainer, dtype = native["trainer"], native["model"]["dtype"]
    item = _count_bytes(question.shape.stored_dtype if dtype == "auto" else dtype)
    return PassOptions(
        item=item,
        lora_rank=question.lora_rank,
        targets=question.target_modules,
        logits_per_pass=count_logits(trainer["logits_per_pass"], cuda=on_gpu),
        truncated=trainer["top_p"] < 1 or trainer["top_k"] > 0,
        weight_item=_count_bytes(trainer["weight_dtype"]),
        moment_item=_count_bytes(trainer["moment_dtype"]),
        attention_item=item if on_gpu else FLOAT32,
    )


def _list_parts(run_info: RunInfo, question: MemoryQuestion) -> Iterator[MemoryPart]:
    shape, hardware, rollout = question.shape, question.hardware, run_info.config.rollout
    own = rollout.name in ("auto", "local")
    engine = rollout.get_options("local") if own else {}
    on_gpu = hardware.gpus > 0 and read_device(run_info) != "cpu"
    gpus = (0,) if on_gpu else (MAIN_MEMORY,)
    gpu_bytes = hardware.gpu_bytes if on_gpu else None
    options = read_pass_options(run_info.native, question, on_gpu=on_gpu)
    separate = _uses_reference(run_info) and not question.lora_rank
    # Fused layers keep their weights in the precision that is computed in, too.
    cast = options.item if shape.family in FAMILIES and options.item != options.weight_item else 0
    reference = (options.weight_item + cast) * shape.parameters if separate else 0
    weights = measure_states(shape, options)[0]
    copied = options.item * shape.parameters if own and shape.family in FAMILIES else 0
    # The sizes of a pass and of the cache are chosen on the card that then holds these.
    free = None if gpu_bytes is None else max(0, gpu_bytes - weights - reference)

    def part(name: str, size: int, because: str, *keys: str, phases: tuple[Phase, ...] = PHASES) -> MemoryPart:
        return MemoryPart(name=name, bytes=size, gpus=gpus, because=because, keys=keys, phases=phases)

    largest = _find_largest_pass(shape, options, run_info, free)
    trained = question.adapter_parameters or shape.parameters
    yield part("weights", largest.held.weights, f"{shape.parameters / 1e6:,.1f} million parameters", *FEWER)
    yield part("gradients", largest.held.gradients, f"of {trained / 1e6:,.1f} million", *FEWER, phases=TRAINING)
    yield part("optimizer", largest.held.optimizer, "two moments of each trained parameter", *FEWER)
    if reference:
        yield part("reference model", reference, "a frozen copy, for the divergence", "trainer_common.use_kl_loss false")
    again = () if largest.recompute else (RECOMPUTE,)
    yield part("activations", largest.held.activations, largest.describe(), *again, *SHORTER, phases=TRAINING)
    pieces = f"at most {options.logits_per_pass:,} at once"
    yield part("logits", largest.held.logits, pieces, "local.trainer.logits_per_pass lower", phases=TRAINING)
    if not own:
        sent = question.adapter_parameters * FLOAT32 if question.lora_rank else shape.parameters * options.item
        why = "files in shared memory, for the servers"
        yield MemoryPart(name="weights in flight", bytes=sent, gpus=(MAIN_MEMORY,), phases=("sending",), because=why)
        return
    model = run_info.config.model
    engines = 1 + len(model.adapters) + len(model.opponents)
    if copied:
        why = ("the engine's stacked copy" if engines == 1 else f"{engines} stacked copies") + ", adapters merged" * (
            question.lora_rank > 0
        )
        yield part("engine's weights", engines * copied, why)
    waiting = rollout.max_env_worker if rollout.max_num_seqs == "auto" else rollout.max_num_seqs
    sequences = engine.get("max_num_seqs") or waiting
    token = shape.count_kv_bytes(options.item)
    most = engine.get("kv_tokens") or (CPU_CACHE_BYTES if free is None else max(0, free - copied) // 2) // token
    tokens = engines * min(most, KEPT_SEQUENCES * sequences * rollout.max_model_len)
    yield part("KV cache", tokens * token, f"at most {tokens:,} tokens; it grows with use", "rollout.local.kv_tokens lower")
    size = SAMPLED * FLOAT32 * sequences * shape.vocabulary
    yield part("sampling", size, f"logits of {sequences} sequences", "rollout.max_num_seqs lower", phases=("playing",))


@frozen(kw_only=True)
class _Pass:
    tokens: int
    recompute: bool
    held: TrainingMemory

    def describe(self) -> str:
        return f"a pass of {self.tokens:,} tokens, " + ("layers computed again" if self.recompute else "all layers kept")


def _find_largest_pass(shape: ModelShape, options: PassOptions, run_info: RunInfo, free: int | None) -> _Pass:
    """Return the full pass, or that of one row that is longer, if it takes more."""
    trainer, longest = run_info.native["trainer"], run_info.config.rollout.max_model_len
    affordable = count_affordable_tokens(
        layers=shape.layers, width=shape.width, inner=shape.inner, cuda=free is not None, free=(free or 0) // 4
    )
    budget, wanted = trainer["micro_batch_tokens"] or affordable, trainer["recompute_activations"]
    found = []
    for tokens in (budget, max(budget, longest)):
        recompute = tokens > affordable if wanted is None else wanted
        held = measure_training(shape, options, tokens=tokens, trained=tokens, recompute=recompute)
        found.append(_Pass(tokens=tokens, recompute=recompute, held=held))
    return max(found, key=lambda one: one.held.total)


def _uses_reference(run_info: RunInfo) -> bool:
    common = run_info.config.trainer_common
    return (common.use_kl_loss and common.kl_loss_coef > 0) or common.algorithm.use_kl_in_reward


def _count_bytes(dtype: str) -> int:
    return 4 if dtype == "float32" else 2
