"""Why a server did not start, from its log, and which of our keys to change."""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import frozen


@frozen(kw_only=True)
class StartupFault:
    """The reason for a failed start in a log."""

    reason: str
    """The server's message, one line."""
    remedy: str | None
    port_taken: bool = False


_PORT = r"[Aa]ddress already in use"
_REMEDIES: Mapping[str, str] = {
    _PORT: "another program listens at its port: end that, or set debug.debug_vllm_port to a free one",
    r"User-specified max_model_len": "lower rollout.max_model_len: the model reaches no further",
    r"larger than the available KV cache": "lower rollout.max_model_len, or give the server more memory: "
    "rollout.vllm.cpu_kv_cache_gib without a GPU, rollout.vllm.gpu_memory_utilization on one",
    r"No available memory for the cache blocks": "raise rollout.vllm.gpu_memory_utilization, or take a smaller model",
    r"Available memory on node": "end what else fills the memory, or lower rollout.vllm.cpu_kv_cache_gib",
    r"Free memory on device": "end what else runs on the GPU, or lower rollout.vllm.gpu_memory_utilization",
    r"CUDA out of memory|OutOfMemoryError": "lower rollout.vllm.gpu_memory_utilization or rollout.max_num_seqs, or spread the "
    "model: rollout.tensor_model_parallel_size",
    r"Failed to infer device type|No CUDA GPUs are available|Found no NVIDIA driver": "this build of vLLM finds no GPU to "
    "compute on: install the CPU build (README of astuner-vllm), or set rollout.name: local",
    r"DefaultCPUAllocator|Cannot allocate memory|MemoryError": "lower rollout.vllm.cpu_kv_cache_gib, or take a smaller model",
    r"divisible by tensor parallel size|[Ww]orld size .* is larger than": "lower rollout.tensor_model_parallel_size, or "
    "debug.debug_tensor_parallel_size with the backbone debug",
    r"Cannot find any model weights|not a valid model identifier|does not appear to have a file": "see that the directory of "
    "model.path holds a whole model",
    r"[Mm]odel architectures .* (are not supported|failed)": "vLLM cannot serve the model of model.path",
    r"unrecognized arguments|error: argument|validation error for": "see rollout.vllm.engine_args",
}
"""By a text in the log. The first match counts, in this order."""

_ERROR = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception|error)\b:? .*")
_PREFIX = re.compile(r"^\([^)]*\)\s*(?:(?:ERROR|WARNING|INFO|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[^]]*\] ?)?")


def find_startup_fault(log: str) -> StartupFault | None:
    """Return the reason in a log; None if it has no error."""
    lines = [strip_prefix(line) for line in log.splitlines()]
    for pattern, remedy in _REMEDIES.items():
        found = [line for line in lines if re.search(pattern, line)]
        # Each process repeats the exception; the bare message is the clearest.
        if found:
            return StartupFault(reason=min(found, key=len)[:400], remedy=remedy, port_taken=pattern == _PORT)
    errors = [line for line in lines if _ERROR.match(line) and "See root cause above" not in line]
    return StartupFault(reason=errors[0][:400], remedy=None) if errors else None


def strip_prefix(line: str) -> str:
    """Return a line of vLLM's log without the leading process, time and place."""
    return _PREFIX.sub("", line).strip()
