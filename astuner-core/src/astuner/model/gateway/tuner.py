"""A workflow's access to the model under training."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field, frozen

from astuner.model.gateway.api_keys import mint
from astuner.model.gateway.route_table import find_remedy
from astuner.settings.config.auxiliary_models import AuxiliaryModel
from astuner.shared.clients.agentscope_models import (
    ModelAddress,
    find_agentscope,
    is_version_1,
    list_settings,
    make_chat_model,
    make_endpoint_model,
    make_reasoning_formatter,
)


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


@frozen(kw_only=True)
class ModelFacts:
    """What frameworks want to know of a model before its first call, and the models besides it."""

    context_size: int | None = None
    """Most tokens of prompt and answer together; None if it is not known."""
    trained_context_size: int | None = None
    """The same for trained agents, whose conversations have limits of their own."""
    shows_reasoning: bool = False
    """Whether the model's chat template knows reasoning."""
    auxiliary_models: Mapping[str, AuxiliaryModel] = field(factory=dict)
    """By name, as configured."""


@frozen
class RemoteTuner:
    """The tuner of a workflow that runs in another process: data only, every request goes through the socket."""

    base_url: str
    secret: str = field(repr=False)
    model: str
    trainable_targets: tuple[str, ...] | None = None
    facts: ModelFacts = field(factory=ModelFacts, repr=False)

    def as_oai_baseurl_apikey(self, agent_name: str = "agent", target_tag: str | None = None) -> Endpoint:
        """Return `.base_url`, `.api_key` and `.model`; without a target tag the agent's name is its target."""
        return Endpoint(self.base_url, mint(self.secret, agent_name, target_tag), self.model)

    def as_raw_openai_sdk_client(self, agent_name: str = "agent", target_tag: str | None = None, **kwargs: Any) -> Any:
        """Return an `openai.AsyncOpenAI` client; `kwargs` go to its constructor. It does not retry by default."""
        from astuner.model.gateway.plain_openai import plain_client_class

        found = self.as_oai_baseurl_apikey(agent_name, target_tag)
        known = {"base_url": found.base_url, "api_key": found.api_key, "max_retries": 0, **self._client_settings("openai")}
        return plain_client_class()(**{**known, **kwargs})

    def as_raw_anthropic_sdk_client(self, agent_name: str = "agent", target_tag: str | None = None, **kwargs: Any) -> Any:
        """Return an `anthropic.AsyncAnthropic` client; `kwargs` go to its constructor. It does not retry by default."""
        anthropic = import_anthropic()
        self._require_api("/v1/messages", "tuner.as_raw_anthropic_sdk_client()")
        found = self.as_oai_baseurl_apikey(agent_name, target_tag)
        known = {"base_url": found.anthropic_base_url, "api_key": found.api_key, "max_retries": 0}
        return anthropic.AsyncAnthropic(**{**known, **self._client_settings("anthropic"), **kwargs})

    def as_agentscope_model(
        self, agent_name: str = "agent", target_tag: str | None = None, debug_model: Any = None, **kwargs: Any
    ) -> Any:
        """Return an `OpenAIChatModel` of the installed AgentScope; `kwargs` go to its constructor.

        AgentScope 2 is given the length of the context, and a formatter that sends reasoning back if the model's chat template
        shows it. `debug_model` is returned instead when it is given and this agent is not trained.
        """
        targets = self.trainable_targets
        auxiliary = self.facts.auxiliary_models.get(target_tag or agent_name)
        frozen = auxiliary is not None and auxiliary.is_frozen_target
        trained = not frozen and (targets is None or (target_tag or agent_name) in targets)
        if debug_model is not None and not trained:
            return debug_model
        found = self.as_oai_baseurl_apikey(agent_name, target_tag)
        version = find_agentscope()
        if version is None:
            raise ImportError(
                "tuner.as_agentscope_model() needs AgentScope: pip install agentscope. Other frameworks take the base_url, "
                "api_key and model of tuner.as_oai_baseurl_apikey()."
            )
        only_2: dict[str, Any] = {}
        if not is_version_1(version):
            only_2 = {"max_retries": 0, **self._describe_model(trained, wants_formatter="formatter" not in kwargs)}
        address = ModelAddress(found.base_url, found.api_key, found.model)
        return make_chat_model(address, {"max_retries": 0, **self._client_settings("openai")}, kwargs, only_2=only_2)

    def as_agentscope_auxiliary_models(self) -> dict[str, Any]:
        """Return a chat model of the installed AgentScope for each of `rollout.auxiliary_models`, by name; none of them streams.

        One without an API of its own is the model in training: its agent and target have the name of the entry.
        """
        return {
            name: self.as_agentscope_model(name, name, **list_settings(chosen))
            if chosen.is_frozen_target
            else make_endpoint_model(chosen)
            for name, chosen in self.facts.auxiliary_models.items()
        }

    def _describe_model(self, trained: bool, *, wants_formatter: bool) -> dict[str, Any]:
        """Return arguments of AgentScope 2's model."""
        size = self.facts.trained_context_size if trained else self.facts.context_size
        found: dict[str, Any] = {} if size is None else {"context_size": size}
        if self.facts.shows_reasoning and wants_formatter:
            found["formatter"] = make_reasoning_formatter()
        return found

    def _client_settings(self, sdk: str) -> Mapping[str, Any]:
        """Return the arguments for the client of an SDK, named by its module, in this process."""
        return {}

    def _require_api(self, path: str, user: str) -> None:
        """Raise ImportError if the gateway is known not to serve a path; here, its answer tells."""


@frozen(eq=False)
class GatewayTuner(RemoteTuner):
    """The tuner of a workflow in the gateway's process, whose clients skip the socket.

    Pickling it, as `remote()`, gives a `RemoteTuner`.
    """

    http_client: Callable[[str], Any] = field(kw_only=True, repr=False)
    """Returns the HTTP client of the library that an SDK, named by its module, uses."""

    def remote(self) -> RemoteTuner:
        """Return what a workflow in another process needs."""
        return RemoteTuner(self.base_url, self.secret, self.model, self.trainable_targets, self.facts)

    def _client_settings(self, sdk: str) -> Mapping[str, Any]:
        return {"http_client": self.http_client(sdk)}

    def _require_api(self, path: str, user: str) -> None:
        if (remedy := find_remedy(path)) is not None:
            raise ImportError(f"{user} needs {path}, an API of a package that is not installed: {remedy}")

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteTuner, (self.base_url, self.secret, self.model, self.trainable_targets, self.facts)


def import_anthropic() -> Any:
    """Import Anthropic's SDK, which an agent may bring; raises ImportError with what to install."""
    try:
        return importlib.import_module("anthropic")
    except ModuleNotFoundError as error:
        if error.name != "anthropic":
            raise
        raise ImportError("tuner.as_raw_anthropic_sdk_client() needs Anthropic's SDK: pip install anthropic.") from None
