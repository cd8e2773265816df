"""The abilities of a server, found by querying it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from attrs import frozen

from astuner.contract.errors import ConfigError, Problem
from astuner.contract.protocols import RunInfo
from astuner.contract.schema import Request, Sampling
from astuner_vllm.failures import Refused
from astuner_vllm.registration import BACKEND

if TYPE_CHECKING:
    from astuner_vllm.client import ServerClient
    from astuner_vllm.member import Member

KEY_REMEDY = "; its key is read from the environment variable that rollout.vllm.api_key_env names"
URL_KEY = "astuner.rollout.vllm.url"


@frozen(kw_only=True)
class Abilities:
    """What a server can do for a run."""

    weight_updates: bool
    logprobs: bool
    """Whether they are of the sampling distribution; vLLM gives those of the model by default."""
    max_model_len: int


async def query_abilities(member: Member, run_info: RunInfo, *, attached: bool) -> Abilities:
    """Query a server; raises `ConfigError` for an external one that cannot be used."""
    client, wanted = member.client, run_info.config.rollout.max_model_len
    try:
        offered = [model for model in await client.list_models() if not model.get("parent")]
    except Refused as error:
        if not attached:
            raise
        raise _url_error(f"{error}{KEY_REMEDY if error.status == 401 else ''}") from error
    if not attached:
        return Abilities(weight_updates=True, logprobs=True, max_model_len=_shortest(wanted, offered))
    model = _find_model(offered, run_info.config.model.path, member.name)
    client.serve_as(str(model["id"]))
    return Abilities(
        weight_updates=await _takes_weights(client),
        logprobs=await _gives_logprobs(client),
        max_model_len=_shortest(wanted, [model]),
    )


def _find_model(offered: list[Mapping[str, Any]], path: str, where: str) -> Mapping[str, Any]:
    """Return the intended model: by its path, or by its name, which is all that another machine may share."""
    for same in (lambda name: name == path, lambda name: PurePath(name).name == PurePath(path).name):
        for model in offered:
            if same(str(model.get("root"))) or same(str(model.get("id"))):
                return model
    names = ", ".join(f"{model.get('id')} ({model.get('root')})" for model in offered) or "none"
    raise _url_error(f"{where} does not serve the model of model.path, {path}; it serves {names}")


async def _takes_weights(client: ServerClient) -> bool:
    try:
        settings = await client.get_settings()
    except Refused:
        return False
    return (settings.get("weight_transfer_config") or {}).get("backend") == BACKEND


async def _gives_logprobs(client: ServerClient) -> bool:
    """Whether log-probabilities are of the sampling distribution: with top-k 1, the most likely token then has one of 0."""
    probe = Request(id="probe", session="probe", prompt_ids=[1, 2, 3], sampling=Sampling(top_k=1, max_tokens=1))
    try:
        found = [value async for chunk in client.generate(probe) for value in chunk.logprobs]
    except Refused as error:
        remedy = "; start it with --enable-scale-out" if error.status == 403 else ""
        raise _url_error(f"{error}{remedy}") from error
    return all(value > -1e-6 for value in found)


def _shortest(wanted: int, offered: list[Mapping[str, Any]]) -> int:
    return min([wanted, *(length for model in offered if isinstance(length := model.get("max_model_len"), int))])


def _url_error(message: str) -> ConfigError:
    return ConfigError([Problem(key=URL_KEY, message=message)])
