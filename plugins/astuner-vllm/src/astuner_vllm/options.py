"""The options of the engine `vllm`: the section `rollout.vllm`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import Attribute, field, frozen
from attrs.validators import and_, ge, gt, le, optional

from astuner.settings.config.components import ONE_OR_MANY
from astuner.settings.config.structure_errors import Fault, FaultsError
from astuner_vllm.arguments import explain_reserved, find_faults
from astuner_vllm.installed import explain_version, installed


def _check_addresses(_: Any, attribute: Attribute[Any], value: tuple[str, ...]) -> None:
    for url in value:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"'{attribute.name}' must begin with http:// or https://: {url!r}")


def _reject_reserved(_: Any, attribute: Attribute[Any], value: Mapping[str, Any]) -> None:
    if refused := [f"{name}: {reason}" for name in value if (reason := explain_reserved(name))]:
        raise ValueError(f"'{attribute.name}' cannot hold " + "; ".join(refused))


def _check_known(options: VllmOptions, _: Attribute[Any], value: Mapping[str, Any]) -> None:
    """Check the arguments against the vLLM of this environment, if it would be started."""
    vllm = installed()
    # It runs before all fields are set.
    if not value or vllm is None or getattr(options, "url", None) or explain_version(vllm) is not None:
        return
    if faults := list(find_faults(value, vllm.directory)):
        raise FaultsError(faults)


def _check_version(options: VllmOptions, _: Attribute[Any], url: tuple[str, ...]) -> None:
    vllm = installed()
    if not url and vllm is not None and (reason := explain_version(vllm)) is not None:
        raise FaultsError([Fault(message=f"{reason}.")])


@frozen(kw_only=True)
class VllmOptions:
    """How vLLM servers are started, updated and ended."""

    url: tuple[str, ...] = field(default=(), validator=[_check_addresses, _check_version], metadata={ONE_OR_MANY: True})
    """Running servers to use, one address or several, as in `http://127.0.0.1:8000`; none are started then."""
    api_key_env: str = "VLLM_API_KEY"
    """The environment variable that holds the key of the servers at `url`; without it no key is sent."""
    startup_timeout_s: float = field(default=600.0, validator=gt(0))
    """How long a server may take to start, in seconds."""
    request_timeout_s: float = field(default=120.0, validator=gt(0))
    """How long a request may wait, in seconds, for its next tokens before its server counts as hung."""
    max_restarts: int = field(default=3, validator=ge(0))
    """How often a run restarts servers that died."""
    idle_timeout_s: float = field(default=900.0, validator=gt(0))
    """Seconds without a user after which a server kept between runs exits."""
    weight_sync: Literal["keep", "wait", "abort"] = "keep"
    """What happens to calls under way when new weights arrive: `keep` continues answers with them, `wait` lets answers end
    first, `abort` cuts them off."""
    cpu_kv_cache_gib: int = field(default=1, validator=ge(1))
    """Memory in GiB that one server reserves for keys and values, without a GPU."""
    cpu_threads: int | None = field(default=None, validator=optional(ge(1)))
    """Threads of one server, without a GPU. Not given: OMP_NUM_THREADS, else half of the cores."""
    gpu_memory_utilization: float | None = field(default=None, validator=optional(and_(gt(0), le(1))))
    """Share of a GPU's memory that one server takes, from 0 to 1. Not given: 0.4 on the GPU on which the backbone `local`
    trains, else vLLM's own choice."""
    enforce_eager: bool | None = None
    """Neither compile the model nor capture CUDA graphs: starts sooner, generates slower. Not given: only without a GPU."""
    engine_args: Mapping[str, Any] = field(factory=dict, validator=[_reject_reserved, _check_known])
    """More arguments of `vllm serve`, as `max_num_batched_tokens: 4096`. Values are true or false, a number, a text, a list, or a
    mapping, which is passed as JSON."""
