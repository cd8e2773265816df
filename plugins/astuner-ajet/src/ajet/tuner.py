"""A workflow's access to the model under training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from astuner_ajet.openai_client import fill_in_model

if TYPE_CHECKING:
    from astuner import Tuner
    from astuner_ajet.settings import Settings

DEFAULT_AGENT, DEFAULT_TARGET = "default_agent_name", "default_target_tag"


@frozen
class ContextTracker:
    """What a workflow may ask about the context of its calls."""

    episode_uuid: str = ""
    task_id: str = ""
    context_overflow: bool = False
    """Always False while a workflow plays: a call for which the context has no room raises, and ends the episode with the
    reward of `rollout.failure_rewards.context_full`."""


@define(eq=False)
class AjetTuner:
    """The tuner of one episode, around that of astuner. It is a chat model of AgentScope too, as in older releases."""

    tuner: Tuner
    config: Settings
    """The configuration, read-only: `config.ajet.rollout.num_repeat`, and the workflow's own sections, `config.frozen_lake`."""
    trainable_targets: Sequence[str] | None = None
    context_tracker: ContextTracker = ContextTracker()
    stream: bool = False
    """Whether it answers with a stream, which it never does; agents of AgentScope read and set it."""
    _own_model: Any = field(default=None, init=False)

    def as_agentscope_model(
        self, agent_name: str = DEFAULT_AGENT, target_tag: str = DEFAULT_TARGET, debug_model: Any = None
    ) -> Any:
        """Return a chat model of AgentScope, without streams; `debug_model` if that is given and the target is not trained."""
        from astuner_ajet.agentscope_model import accept_bare_parts

        if debug_model is not None and not self._trains(target_tag):
            return debug_model
        return accept_bare_parts(self.tuner.as_agentscope_model(agent_name, target_tag, stream=False))

    def as_raw_openai_sdk_client(
        self, agent_name: str = DEFAULT_AGENT, target_tag: str = DEFAULT_TARGET, debug_model: str | None = None
    ) -> Any:
        """Return a client of the OpenAI SDK that needs no `model`.

        If the target is not trained and `debug_model` is given, it is a client of OpenAI's own API, with this model.
        """
        if debug_model is not None and not self._trains(target_tag):
            import openai

            return fill_in_model(openai.AsyncOpenAI(), debug_model)
        endpoint = self.tuner.as_oai_baseurl_apikey(agent_name, target_tag)
        return fill_in_model(self.tuner.as_raw_openai_sdk_client(agent_name, target_tag), endpoint.model)

    def as_oai_baseurl_apikey(self, agent_name: str = DEFAULT_AGENT, target_tag: str = DEFAULT_TARGET) -> Any:
        """Return `.base_url`, `.api_key` and `.model`, for any framework in any process."""
        return self.tuner.as_oai_baseurl_apikey(agent_name, target_tag)

    def get_context_tracker(self) -> ContextTracker:
        """Return what is known of the context."""
        return self.context_tracker

    def terminate_episode(self) -> None:
        """Do nothing: an episode ends when its workflow returns."""

    @property
    def model_name(self) -> str:
        """Return the name of the model under training."""
        return str(self.as_oai_baseurl_apikey().model)

    async def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Ask the model under training: agents written for older releases have the tuner itself as their model."""
        if self._own_model is None:
            self._own_model = self.as_agentscope_model()
        return await self._own_model(*arguments, **named)

    def register_model(self, target_name: str, default_model: Any = None) -> Any:
        """Return the chat model of a target; `default_model` if that is given and the target is not trained."""
        return self.as_agentscope_model(target_name, target_name, default_model)

    def _trains(self, target_tag: str) -> bool:
        return not self.trainable_targets or target_tag in self.trainable_targets


ModelTuner = AjetTuner
"""Its older name."""
