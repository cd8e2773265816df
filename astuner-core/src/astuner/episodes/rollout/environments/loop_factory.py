"""Making the loop of each episode in which the environment leads, out of the run's configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from astuner.contract.protocols import ContextPolicy, RunInfo, Tracker, TrackerTraits, Workflow, read_traits
from astuner.episodes.rollout.environments.conversation_room import ContextLimits, TokenCounter
from astuner.episodes.rollout.environments.environment_loop import EnvironmentLoop, LoopOptions

if TYPE_CHECKING:
    from astuner.episodes.rollout.environments.living_environment import LivingEnvironment
    from astuner.model.rendering import TemplateRenderer


class LoopFactory:
    """Makes the workflows of a rollout process in which environments lead."""

    def __init__(
        self, run_info: RunInfo, *, renderer: TemplateRenderer | None, engine_max_model_len: int | None, gives_reward: bool
    ) -> None:
        """`renderer` is None for an engine that speaks chat; `gives_reward` when no judge is configured."""
        self._config, self._gives_reward = run_info.config, gives_reward
        rollout, data = run_info.config.rollout, run_info.config.data
        self._limits = ContextLimits(
            max_model_len=min(rollout.max_model_len, engine_max_model_len or rollout.max_model_len),
            max_prompt_length=data.max_prompt_length,
            max_response_length=data.max_response_length,
            max_answer=rollout.max_response_length_in_one_turn,
        )
        self._counter = TokenCounter(renderer, self._limits.max_model_len)

    def make(self, living: LivingEnvironment, tracker: Tracker) -> Workflow:
        """Return the workflow of one episode; a tracker that manages the context has its conversation."""
        options = LoopOptions(
            name=living.name,
            preference=living.preference,
            max_steps=self._config.rollout.multi_turn.max_steps,
            max_env_len=self._config.context_tracker.max_env_len,
            limits=self._limits,
            gives_reward=self._gives_reward,
        )
        policy = cast("ContextPolicy", tracker) if read_traits(tracker, TrackerTraits).manages_context else None
        return EnvironmentLoop(living.guarded, options, policy=policy, counter=self._counter)
