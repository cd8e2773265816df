"""The servers of a run: number, GPUs and ports of its own, or external ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any

from astuner.contract.errors import ConfigError, Problem
from astuner.contract.protocols import RunInfo
from astuner_vllm.checkpoint import choose_trained_dtype, read_model_config, read_saved_dtype
from astuner_vllm.client import ServerClient
from astuner_vllm.command import SERVED_NAME, ServerCommand, server_command
from astuner_vllm.gpus import visible_gpus
from astuner_vllm.installed import explain_absence, installed
from astuner_vllm.member import Member
from astuner_vllm.options import VllmOptions
from astuner_vllm.server import Say, ServerPlan
from astuner_vllm.warm import SERVER_KEY, find_warm, fingerprint

if TYPE_CHECKING:
    from astuner.shared.processes import ProgramHandle


def make_own_members(options: VllmOptions, run_info: RunInfo, say: Say) -> list[Member]:
    """Return the servers that the run starts, or finds warm; raises `ConfigError` if that is impossible."""
    vllm = installed()
    if vllm is None:
        raise ConfigError([Problem(key="astuner.rollout.name", message=explain_absence())])
    gpus = () if vllm.cpu else visible_gpus()
    key = token_urlsafe(24)
    debug = run_info.backbone == "debug"
    size = _debug_size(run_info, gpus) if debug else run_info.config.rollout.tensor_model_parallel_size
    if size > 1 and vllm.cpu:
        say(f"one vLLM process does the work of {size}: there is no GPU to spread it over", "warning")
    count = 1 if debug else count_servers(run_info, size, gpus)
    return [
        _member(
            f"vllm-{number}",
            options,
            run_info,
            partial(
                server_command,
                options,
                run_info,
                vllm=vllm,
                api_key=key,
                tensor_parallel_size=size,
                gpus=(share := share_gpus(gpus, number, size)),
                servers=count,
                shares_gpu=not share or gpus[0] in share,
                seed=run_info.config.debug.debug_vllm_seed if debug else None,
            ),
            key,
        )
        for number in range(count)
    ]


def make_attached_members(options: VllmOptions, run_info: RunInfo) -> list[Member]:
    """Return the external servers that the configuration names."""
    key = os.environ.get(options.api_key_env)
    return [Member(name=url, client=_client(url, options, run_info, key=key, model=None)) for url in options.url]


def find_served_dtype(run_info: RunInfo) -> str | None:
    """Return the servers' precision, if the configuration or the model specifies it."""
    dtype = run_info.config.model.dtype
    if dtype != "auto":
        return dtype
    config = read_model_config(run_info.config.model.path)
    return choose_trained_dtype(config) if run_info.backbone == "local" else read_saved_dtype(config)


def vocabulary_size(run_info: RunInfo) -> int | None:
    """Return the size of the model's vocabulary, if its configuration has it."""
    config = read_model_config(run_info.config.model.path)
    found = config.get("vocab_size", (config.get("text_config") or {}).get("vocab_size"))
    return found if isinstance(found, int) else None


def _member(name: str, options: VllmOptions, run_info: RunInfo, command: partial[ServerCommand], key: str) -> Member:
    from astuner.shared.processes import Lease

    extra: dict[str, Any] = {}
    port = None
    find: Callable[[Say], ProgramHandle | None] | None = None
    lease = None
    if run_info.backbone == "debug":
        port, lease = run_info.config.debug.debug_vllm_port, Lease(idle_s=options.idle_timeout_s)
        extra = {"fingerprint": fingerprint(run_info.config.model.path)}
        facts = {**command(port=port).facts, **extra}
        find = partial(find_warm, port, facts, fresh=run_info.fresh, startup_timeout_s=options.startup_timeout_s)

    plan = ServerPlan(
        name=name,
        command=lambda at: command(port=at),
        directory=run_info.directory,
        timeout_s=options.startup_timeout_s,
        port=port,
        lease=lease,
        facts={**extra, SERVER_KEY: key},
    )

    def connect(launched: ProgramHandle) -> ServerClient:
        return _client(str(launched.record.url), options, run_info, key=launched.record.facts.get(SERVER_KEY), model=SERVED_NAME)

    return Member(name=name, client=ServerClient(""), connect=connect, plan=plan, find=find)


def _client(url: str, options: VllmOptions, run_info: RunInfo, *, key: str | None, model: str | None) -> ServerClient:
    return ServerClient(
        url,
        model=model,
        vocab_size=vocabulary_size(run_info),
        silence_s=options.request_timeout_s,
        api_key=key,
        salt=run_info.config.debug.debug_vllm_seed if run_info.backbone == "debug" else 0,
    )


def count_servers(run_info: RunInfo, size: int, gpus: tuple[str, ...]) -> int:
    """Return how many servers a run starts, each on `size` GPUs: by default one for all but the trainer's GPU.

    Raises `ConfigError` if there are too few.
    """
    asked = run_info.config.rollout.n_vllm_engine if "rollout.n_vllm_engine" in run_info.user_keys else None
    fitting = len(gpus) // size
    if gpus and fitting < (asked or 1):
        message = (
            f"{asked or 1} servers on {size} GPUs each need {(asked or 1) * size}, and there are {len(gpus)}: "
            "lower it, or rollout.tensor_model_parallel_size"
        )
        raise ConfigError([Problem(key="astuner.rollout.n_vllm_engine", message=message)])
    return asked or max(1, (len(gpus) - 1) // size)


def _debug_size(run_info: RunInfo, gpus: tuple[str, ...]) -> int:
    wanted = run_info.config.debug.debug_tensor_parallel_size
    if "debug.debug_tensor_parallel_size" in run_info.user_keys:
        return wanted
    config = read_model_config(run_info.config.model.path)
    heads = (config.get("text_config") or config).get("num_attention_heads") or 0
    # Heads must be divided evenly, which works for 1, 2 or 4 devices more often than for 3.
    return max((size for size in (1, 2, 4) if size <= min(wanted, len(gpus)) and heads % size == 0), default=1)


def share_gpus(gpus: tuple[str, ...], number: int, size: int) -> tuple[str, ...]:
    """Return the GPUs of a server, starting from the last: a trainer in this process has the first."""
    end = len(gpus) - number * size
    return gpus[max(0, end - size) : max(0, end)]
