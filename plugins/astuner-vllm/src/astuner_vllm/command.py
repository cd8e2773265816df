"""The command line of a vLLM server, from the configuration."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import field, frozen

from astuner.contract.protocols import RunInfo, settle_sequences
from astuner.runs.training import check_whole_model
from astuner.settings.memory_estimate import find_longest_context
from astuner.shared.processes import SOCKETS
from astuner_vllm.access import KEY
from astuner_vllm.adapters import EXTENSION
from astuner_vllm.arguments import command_words
from astuner_vllm.checkpoint import choose_trained_dtype, read_model_config, read_saved_dtype
from astuner_vllm.installed import VllmInstalled
from astuner_vllm.options import VllmOptions
from astuner_vllm.registration import BACKEND, ENABLED

SERVED_NAME = "policy"
"""The model's name in requests; its LoRA adapters have their own names."""
LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Sizes of vLLM's adapter slots; an adapter takes the next larger one."""
SHARED_GPU_MEMORY = 0.4
"""Share of a GPU's memory for a server next to a trainer."""


@frozen(kw_only=True)
class ServerCommand:
    """The command of one server."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    """Added to the environment of this process; holds the key."""
    facts: Mapping[str, Any]
    """What a server must share with this one to replace it; JSON, without port and key."""


def server_command(
    options: VllmOptions,
    run_info: RunInfo,
    *,
    port: int,
    vllm: VllmInstalled,
    api_key: str,
    model: str | None = None,
    seed: int | None = None,
    tensor_parallel_size: int | None = None,
    gpus: tuple[str, ...] = (),
    servers: int = 1,
    shares_gpu: bool = True,
) -> ServerCommand:
    """Return the command of a server that listens on a port of this machine, with weights of `model` (default `model.path`).

    `seed` and `tensor_parallel_size` replace those of the configuration; `gpus` are the visible devices, all if empty.
    `servers` is their number in the run, and `shares_gpu` whether a trainer has a part of this one's GPUs. Raises
    `ConfigError` for a model without configuration.
    """
    model = model or run_info.config.model.path
    check_whole_model(model, "the engine 'vllm'")
    checkpoint = read_model_config(model)
    size = tensor_parallel_size or run_info.config.rollout.tensor_model_parallel_size
    arguments = tuple(
        command_words(
            {
                "dtype": _dtype(run_info, checkpoint),
                "seed": _seed(run_info) if seed is None else seed,
                "max_model_len": _context(run_info, checkpoint),
                "max_num_seqs": settle_sequences(run_info.config.rollout, engines=servers, gpu=not vllm.cpu).value,
                **({} if size == 1 or vllm.cpu else {"tensor_parallel_size": size}),
                **dict(_memory(options, vllm, shared=shares_gpu and run_info.backbone == "local")),
                **dict(_lora(run_info, vllm)),
                "disable_log_stats": True,
                **{name.replace("-", "_"): value for name, value in options.engine_args.items()},
            }
        )
    )
    environment = dict(_environment(options, run_info, vllm))
    devices = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus))} if gpus else {}
    fixed = ("--served-model-name", SERVED_NAME, *_list_fixed_arguments(), *arguments)
    return ServerCommand(
        argv=(sys.executable, "-m", "astuner_vllm.serve", model, "--host", "127.0.0.1", "--port", str(port), *fixed),
        env={**environment, **devices, KEY: api_key},
        facts={"model": model, "arguments": list(fixed), "environment": environment, "vllm": vllm.version},
    )


def _list_fixed_arguments() -> Iterator[str]:
    # Those of the sampling distribution: they cannot be computed from raw ones if top-p or top-k cut it.
    yield from ("--logprobs-mode", "processed_logprobs")
    # Without this, a temperature or a penalty in the checkpoint's generation_config.json would affect every request.
    yield from ("--generation-config", "vllm")
    # Opens /inference/v1/generate: token ids in, token ids and weight versions out.
    yield "--enable-scale-out"
    yield from ("--weight-transfer-config", json.dumps({"backend": BACKEND}))
    # The endpoints of VLLM_SERVER_DEV_MODE load weights and call methods of the workers. That is safe here: the server listens on
    # loopback, and this requires the run's key for every path, unlike vLLM's own check.
    yield from ("--middleware", "astuner_vllm.access.RequireKey")
    yield "--enable-prefix-caching"
    yield "--disable-uvicorn-access-log"


def _dtype(run_info: RunInfo, checkpoint: Mapping[str, Any]) -> str:
    # vLLM's `auto` would halve the precision of a float32 checkpoint, unlike the trainer.
    dtype = run_info.config.model.dtype
    if dtype != "auto":
        return dtype
    return choose_trained_dtype(checkpoint) if run_info.backbone == "local" else read_saved_dtype(checkpoint) or "auto"


def _seed(run_info: RunInfo) -> int:
    return run_info.seed if run_info.config.rollout.seed is None else run_info.config.rollout.seed


def _context(run_info: RunInfo, checkpoint: Mapping[str, Any]) -> int:
    # vLLM may refuse a length that the user wrote; the default only means "long enough", so it yields to a short model.
    wanted, reach = run_info.config.rollout.max_model_len, find_longest_context(checkpoint)
    return wanted if reach is None or "rollout.max_model_len" in run_info.user_keys else min(wanted, reach)


def _memory(options: VllmOptions, vllm: VllmInstalled, *, shared: bool) -> Iterator[tuple[str, Any]]:
    if vllm.cpu if options.enforce_eager is None else options.enforce_eager:
        yield "enforce_eager", True
    if vllm.cpu:
        return
    if options.gpu_memory_utilization is not None:
        yield "gpu_memory_utilization", options.gpu_memory_utilization
    elif shared:
        yield "gpu_memory_utilization", SHARED_GPU_MEMORY


def trains_adapters(run_info: RunInfo) -> bool:
    """Whether the run trains LoRA adapters, which a server then loads and updates."""
    return bool(run_info.config.model.lora_ranks) and run_info.backbone != "debug"


def _lora(run_info: RunInfo, vllm: VllmInstalled) -> Iterator[tuple[str, Any]]:
    if trains_adapters(run_info):
        model = run_info.config.model
        rank = max(model.lora_ranks)
        yield "enable_lora", True
        slots = len(model.lora_ranks) + len(model.opponents)
        # On a CPU, requests without adapters get the last slot's in a batch with others: it stays empty.
        yield "max_loras", slots + (slots > 1 and vllm.cpu)
        yield "max_lora_rank", next((size for size in LORA_RANKS if size >= rank), rank)
        yield "worker_extension_cls", EXTENSION


def _environment(options: VllmOptions, run_info: RunInfo, vllm: VllmInstalled) -> Iterator[tuple[str, str]]:
    yield ENABLED, "1"
    # Several GPUs of one server find each other on this machine.
    yield from SOCKETS.items()
    # See `_list_fixed_arguments` for why these endpoints are safe.
    yield "VLLM_SERVER_DEV_MODE", "1"
    yield "VLLM_NO_USAGE_STATS", "1"
    # A connection that vLLM closes while a request is on its way looks like a lost server; its default is 5 seconds.
    yield "VLLM_HTTP_TIMEOUT_KEEP_ALIVE", "600"
    if trains_adapters(run_info):
        yield "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "1"
    if vllm.cpu:
        yield "VLLM_CPU_KVCACHE_SPACE", str(options.cpu_kv_cache_gib)
        # vLLM would bind each thread to a core that trainer, gateway and other servers use too.
        yield "VLLM_CPU_OMP_THREADS_BIND", "nobind"
        yield "OMP_NUM_THREADS", str(_threads(options))
        # A helper of its sampler is compiled despite `enforce_eager`: many seconds, during the first requests.
        if options.enforce_eager is not False:
            yield "TORCH_COMPILE_DISABLE", "1"


def _threads(options: VllmOptions) -> int:
    if options.cpu_threads is not None:
        return options.cpu_threads
    said = os.environ.get("OMP_NUM_THREADS", "")
    return int(said) if said.isdigit() and int(said) > 0 else max(1, (os.cpu_count() or 1) // 2)
