"""Chat models of the installed AgentScope, 1.x or 2.x, on any OpenAI-compatible API."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from astuner.shared.clients.foreign_answers import LIMITED

if TYPE_CHECKING:
    from astuner.settings.config.auxiliary_models import AuxiliaryModel

NO_KEY = "none"
"""A private server may need no key; clients insist on sending one."""


@frozen
class ModelAddress:
    """An OpenAI-compatible API and the name of a model there."""

    base_url: str
    api_key: str = field(repr=False)
    model: str


def find_agentscope() -> str | None:
    """Return the version of the installed AgentScope; None if there is none."""
    try:
        return importlib.metadata.version("agentscope")
    except importlib.metadata.PackageNotFoundError:
        return None


def is_version_1(version: str) -> bool:
    """Whether a version of AgentScope has the interfaces of 1.x."""
    return version.startswith("1.")


def make_chat_model(
    address: ModelAddress, client_kwargs: Mapping[str, Any], kwargs: Mapping[str, Any], *, only_2: Mapping[str, Any]
) -> Any:
    """Make an `OpenAIChatModel`; `kwargs` go to its constructor and win over all others.

    `only_2` are further arguments for AgentScope 2. Raises ImportError without AgentScope.
    """
    version = find_agentscope()
    if version is None:
        raise ImportError("AgentScope is not installed: pip install agentscope.")
    kind = importlib.import_module("agentscope.model").OpenAIChatModel
    given = dict(kwargs)
    to_client = {**client_kwargs, **given.pop("client_kwargs", {})}
    if is_version_1(version):
        to_client = {"base_url": address.base_url, **to_client}
        return kind(**{"model_name": address.model, "api_key": address.api_key, "client_kwargs": to_client, **given})
    credential = importlib.import_module("agentscope.credential").OpenAICredential(
        api_key=address.api_key, base_url=address.base_url
    )
    return kind(**{"credential": credential, "model": address.model, "client_kwargs": to_client, **only_2, **given})


def make_reasoning_formatter() -> Any:
    """Return the formatter of AgentScope 2 that sends reasoning back; None if this release has none."""
    kind = getattr(importlib.import_module("agentscope.formatter"), "DeepSeekChatFormatter", None)
    return None if kind is None else kind()


def make_endpoint_model(chosen: AuxiliaryModel) -> Any:
    """Make the chat model of an auxiliary model that has its own API, not streaming."""
    key = os.environ.get(chosen.api_key_env or "OPENAI_API_KEY") or NO_KEY
    address = ModelAddress(chosen.base_url or "", key, chosen.model or "")
    client = importlib.import_module("openai").DefaultAsyncHttpxClient(**LIMITED)
    return make_chat_model(address, {"http_client": client}, list_settings(chosen), only_2={})


def list_settings(chosen: AuxiliaryModel) -> dict[str, Any]:
    """Return the arguments of a chat model of the installed AgentScope for the settings of an auxiliary model."""
    values = {name: getattr(chosen, name) for name in ("temperature", "top_p", "max_tokens")}
    sampling = {name: value for name, value in values.items() if value is not None}
    version = find_agentscope()
    if version is None or is_version_1(version):
        return {"stream": False, **({"generate_kwargs": sampling} if sampling else {})}
    found: dict[str, Any] = {"stream": False}
    if sampling:
        found["parameters"] = importlib.import_module("agentscope.model").OpenAIChatModel.Parameters(**sampling)
    if chosen.context_size is not None:
        found["context_size"] = chosen.context_size
    return found


async def close_models(models: Iterable[Any]) -> None:
    """Close the connections of chat models that share none."""
    for model in models:
        with suppress(Exception):
            await model.client.close()
