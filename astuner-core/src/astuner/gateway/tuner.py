"""A workflow's access to the model under training."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from astuner.gateway.api_keys import mint


@define
class Endpoint:
    """The settings of an OpenAI-compatible client. Its fields can be set, like those of `ChatModel`."""

    base_url: str
    api_key: str = field(repr=False)
    model: str

    @property
    def anthropic_base_url(self) -> str:
        """The base URL as Anthropic's SDK takes it: without `/v1`, which it adds itself."""
        return self.base_url.removesuffix("/v1")


@frozen
class RemoteTuner:
    """The tuner of a workflow that runs in another process: data only, every request goes through the socket."""

    base_url: str
    secret: str = field(repr=False)
    model: str
    trainable_targets: tuple[str, ...] | None = None

    def as_oai_baseurl_apikey(self, agent_name: str = "agent", target_tag: str | None = None) -> Endpoint:
        """Return `.base_url`, `.api_key` and `.model`; without a target tag the agent's name is its target."""
        return Endpoint(self.base_url, mint(self.secret, agent_name, target_tag), self.model)

    def as_raw_openai_sdk_client(self, agent_name: str = "agent", target_tag: str | None = None, **kwargs: Any) -> Any:
        """Return an `openai.AsyncOpenAI` client; `kwargs` go to its constructor. It does not retry by default."""
        import openai

        found = self.as_oai_baseurl_apikey(agent_name, target_tag)
        return openai.AsyncOpenAI(**{"base_url": found.base_url, "api_key": found.api_key, "max_retries": 0, **kwargs})

    def as_raw_anthropic_sdk_client(self, agent_name: str = "agent", target_tag: str | None = None, **kwargs: Any) -> Any:
        """Return an `anthropic.AsyncAnthropic` client; `kwargs` go to its constructor. It does not retry by default."""
        anthropic = import_anthropic()
        found = self.as_oai_baseurl_apikey(agent_name, target_tag)
        known = {"base_url": found.anthropic_base_url, "api_key": found.api_key, "max_retries": 0}
        return anthropic.AsyncAnthropic(**{**known, **kwargs})

    def as_agentscope_model(
        self, agent_name: str = "agent", target_tag: str | None = None, debug_model: Any = None, **kwargs: Any
    ) -> Any:
        """Return an `OpenAIChatModel` of the installed AgentScope; `kwargs` go to its constructor.

        `debug_model` is returned instead when it is given and this agent is not trained.
        """
        if debug_model is not None and not _trains(self.trainable_targets, target_tag or agent_name):
            return debug_model
        return make_agentscope_model(self.as_oai_baseurl_apikey(agent_name, target_tag), {}, kwargs)


class GatewayTuner:
    """The tuner of a workflow in the gateway's process. Pickling it, as `remote()`, gives a `RemoteTuner`."""

    def __init__(
        self, base_url: str, secret: str, model: str, trainable_targets: Sequence[str] | None, http_client: Callable[[str], Any]
    ) -> None:
        """`http_client` returns a client that skips the socket, of the library that an SDK, named by its module, uses."""
        targets = None if trainable_targets is None else tuple(trainable_targets)
        self._remote = RemoteTuner(base_url, secret, model, targets)
        self._http_client = http_client

    def remote(self) -> RemoteTuner:
        """Return what a workflow in another process needs."""
        return self._remote

    def as_oai_baseurl_apikey(self, agent_name: str = "agent", target_tag: str | None = None) -> Endpoint:
        """Return `.base_url`, `.api_key` and `.model`; without a target tag the agent's name is its target."""
        return self._remote.as_oai_baseurl_apikey(agent_name, target_tag)

    def as_raw_openai_sdk_client(self, agent_name: str = "agent", target_tag: str | None = None, **kwargs: Any) -> Any:
        """Return an `openai.AsyncOpenAI` client that skips the socket; `kwargs` go to its constructor."""
        return self._remote.as_raw_openai_sdk_client(
            agent_name, target_tag, **{"http_client": self._http_client("openai"), **kwargs}
        )

    def as_raw_anthropic_sdk_client(self, agent_name: str = "agent", target_tag: str | None = None, **kwargs: Any) -> Any:
        """Return an `anthropic.AsyncAnthropic` client that skips the socket; `kwargs` go to its constructor."""
        import_anthropic()
        given = {"http_client": self._http_client("anthropic"), **kwargs}
        return self._remote.as_raw_anthropic_sdk_client(agent_name, target_tag, **given)

    def as_agentscope_model(
        self, agent_name: str = "agent", target_tag: str | None = None, debug_model: Any = None, **kwargs: Any
    ) -> Any:
        """Return an `OpenAIChatModel` of the installed AgentScope that skips the socket; see `RemoteTuner`."""
        if debug_model is not None and not _trains(self._remote.trainable_targets, target_tag or agent_name):
            return debug_model
        client_kwargs = {"http_client": self._http_client("openai")}
        return make_agentscope_model(self.as_oai_baseurl_apikey(agent_name, target_tag), client_kwargs, kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        found = self._remote
        return RemoteTuner, (found.base_url, found.secret, found.model, found.trainable_targets)


def import_anthropic() -> Any:
    """Import Anthropic's SDK, which an agent may bring; raises ImportError with what to install."""
    try:
        return importlib.import_module("anthropic")
    except ModuleNotFoundError as error:
        if error.name != "anthropic":
            raise
        raise ImportError("tuner.as_raw_anthropic_sdk_client() needs Anthropic's SDK: pip install anthropic.") from None


def make_agentscope_model(endpoint: Endpoint, client_kwargs: Mapping[str, Any], kwargs: Mapping[str, Any]) -> Any:
    """Make the chat model of AgentScope 1.x or 2.x, whichever is installed."""
    try:
        version = importlib.metadata.version("agentscope")
    except importlib.metadata.PackageNotFoundError:
        raise ImportError(
            "tuner.as_agentscope_model() needs AgentScope: pip install agentscope. Other frameworks take the base_url, "
            "api_key and model of tuner.as_oai_baseurl_apikey()."
        ) from None
    model = importlib.import_module("agentscope.model").OpenAIChatModel
    given = dict(kwargs)
    to_client = {"max_retries": 0, **client_kwargs, **given.pop("client_kwargs", {})}
    if version.startswith("1."):
        to_client = {"base_url": endpoint.base_url, **to_client}
        return model(**{"model_name": endpoint.model, "api_key": endpoint.api_key, "client_kwargs": to_client, **given})
    credential = importlib.import_module("agentscope.credential").OpenAICredential(
        api_key=endpoint.api_key, base_url=endpoint.base_url
    )
    defaults = {"credential": credential, "model": endpoint.model, "client_kwargs": to_client, "max_retries": 0}
    return model(**{**defaults, **given})


def _trains(targets: Sequence[str] | None, target_tag: str) -> bool:
    return targets is None or target_tag in targets
