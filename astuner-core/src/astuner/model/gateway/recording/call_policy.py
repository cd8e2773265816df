"""How a call is served: its sampling parameters, and whether it is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field

from astuner.contract.schema import Capabilities, Sampling

if TYPE_CHECKING:
    from astuner.model.gateway.recording.episode_spec import EpisodeSpec
    from astuner.model.gateway.recording.request import ChatRequest

CONSTRAINTS = {"tool_call": "a required tool call", "json_object": "JSON output", "json_schema": "output in a JSON schema"}
"""Types of `ChatRequest.constraint`, as notices name them."""


@define(eq=False)
class CallPolicy:
    """Reconciles an agent's request with the configuration."""

    spec: EpisodeSpec
    capabilities: Capabilities
    notice: Callable[[str], None]
    """Receives messages for the user."""
    _overruled: set[tuple[str, str]] = field(factory=set, init=False)

    def choose_constraint(self, request: ChatRequest, agent: str, trained: bool) -> Mapping[str, Any] | None:
        """Return the grammar that the engine enforces for a call; None if its answer is sampled freely."""
        constraint = request.constraint
        if constraint is None:
            return None
        able = self.capabilities.constrains(constraint)
        if able and (not trained or self.spec.constraints == "enforce"):
            if trained:
                self.notice(
                    f"{agent}: {CONSTRAINTS[constraint['type']]} is enforced, so these answers are not trained "
                    "(rollout.constraints is 'enforce'; 'ignore' samples them freely and trains them)."
                )
            return constraint
        cause = "rollout.constraints is 'ignore'" if able else "the engine cannot enforce it"
        outcome = "sampled freely"
        if trained and self.capabilities.logprobs:
            outcome += " and trained, which enforced ones would not be"
        self.notice(
            f"{agent}: {CONSTRAINTS[constraint['type']]} has no effect, since {cause}. Its answers are {outcome}; "
            "the agent must check their form itself (docs/recording.md#required-forms)."
        )
        return None

    def find_untrained_reason(self, constraint: Mapping[str, Any] | None, trained: bool) -> str | None:
        """Return the reason why no token of a call under this enforced grammar may be trained, or None."""
        if not trained:
            return "frozen_agent"
        if constraint is not None:
            # They come from another distribution than the policy's.
            return "constrained"
        return None if self.capabilities.logprobs else "no_logprobs"

    def choose_sampling(self, request: ChatRequest, agent: str, trained: bool) -> Sampling:
        """Return a call's sampling parameters: for a trained call the configuration's, except for a lower `max_tokens`."""
        ours = self.spec.sampling
        requested: Mapping[str, Any] = {
            name: value
            for name in ("temperature", "top_p", "top_k", "max_tokens")
            if (value := getattr(request, name)) is not None
        }
        if not trained:
            return evolve(ours, **requested, top_logprobs=request.top_logprobs)
        for name in ("temperature", "top_p", "top_k"):
            if name in requested and requested[name] != getattr(ours, name) and (agent, name) not in self._overruled:
                self._overruled.add((agent, name))
                self.notice(
                    f"{agent}: '{name}' {requested[name]:g} is replaced by the configured {getattr(ours, name):g}, "
                    "since trained calls are sampled as configured."
                )
        max_tokens = min(ours.max_tokens, requested.get("max_tokens", ours.max_tokens))
        return evolve(ours, max_tokens=max_tokens, top_logprobs=request.top_logprobs)
