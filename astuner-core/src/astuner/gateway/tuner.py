"""A workflow's access to the model under training."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Mapping
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
        from astuner.gateway.plain_openai import plain_client_class

        found = self.as_oai_baseurl_apikey(agent_name, target_tag)
        known = {"base_url": found.base_url, "api_key": found.api_key, "max_retries": 0, **self._client_settings("openai")}
        return plain_client_class()(**{**known, **kwargs})

    def as_raw_anthropic_sdk_client(self, agent_name: str = "agent", target_tag: str | None = None, **kwargs: Any) -> Any:
        """Return an `anthropic.AsyncAnthropic` client; `kwargs` go to its constructor. It does not retry by default."""
        anthropic = import_anthropic()
        found = self.as_oai_baseurl_apikey(agent_name, target_tag)
        known = {"base_url": found.anthropic_base_url, "api_key": found.api_key, "max_retries": 0}
        return anthropic.AsyncAnthropic(**{**known, **self._client_settings("anthropic"), **kwargs})

    def as_agentscope_model(
        self, agent_name: str = "agent", target_tag: str | None = None, debug_model: Any = None, **kwargs: Any
    ) -> Any:
        """Return an `OpenAIChatModel` of the installed AgentScope; `kwargs` go to its constructor.

        `debug_model` is returned instead when it is given and this agent is not trained.
        """
        targets = self.trainable_targets
        if debug_model is not None and targets is not None and (target_tag or agent_name) not in targets:
            return debug_model
        endpoint = self.as_oai_baseurl_apikey(agent_name, target_tag)
        return make_agentscope_model(endpoint, self._client_settings("openai"), kwargs)

    def _client_settings(self, sdk: str) -> Mapping[str, Any]:
        """Return the arguments for the client of an SDK, named by its module, in this process."""
        return {}


@frozen(eq=False)
class GatewayTuner(RemoteTuner):
    """The tuner of a workflow in the gateway's process, whose clients skip the socket.

    Pickling it, as `remote()`, gives a `RemoteTuner`.
    """

    http_client: Callable[[str], Any] = field(kw_only=True, repr=False)
    """Returns the HTTP client of the library that an SDK, named by its module, uses."""

    def remote(self) -> RemoteTuner:
        """Return what a workflow in another process needs."""
        return RemoteTuner(self.base_url, self.secret, self.model, self.trainable_targets)

    def _client_settings(self, sdk: str) -> Mapping[str, Any]:
        return {"http_client": self.http_client(sdk)}

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteTuner, (self.base_url, self.secret, self.model, self.trainable_targets)


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
