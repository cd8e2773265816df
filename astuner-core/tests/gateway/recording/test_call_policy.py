from __future__ import annotations

from typing import Any

import pytest

from astuner.contract.schema import Capabilities, Sampling
from astuner.model.gateway.recording.call_policy import CallPolicy
from astuner.model.gateway.recording.episode_spec import EpisodeSpec
from astuner.model.gateway.recording.request import ChatRequest

JSON = {"type": "json_object"}
TOOL: dict[str, Any] = {"type": "tool_call", "tools": ()}
NONE = Capabilities()
JSON_ONLY = Capabilities(constrained=True, constraints=("json_object",))
NO_LOGPROBS = Capabilities(logprobs=False)

CHECK = "the agent must check their form itself (docs/recording.md#required-forms)."
FREE = f"Its answers are sampled freely and trained, which enforced ones would not be; {CHECK}"
UNABLE = "scout: {} has no effect, since the engine cannot enforce it. "
IGNORED = "scout: {} has no effect, since rollout.constraints is 'ignore'. "
ENFORCED = (
    "scout: {} is enforced, so these answers are not trained "
    "(rollout.constraints is 'enforce'; 'ignore' samples them freely and trains them)."
)


def settle(constraint: Any, capabilities: Capabilities, constraints: Any, trained: bool) -> tuple[Any, str | None, list[str]]:
    """Return the enforced grammar, why the call is untrained, and the notices of two such requests."""
    notices: dict[str, None] = {}
    spec = EpisodeSpec(
        episode_id="e", seed=0, sampling=Sampling(), max_model_len=64, trainable_targets=None, constraints=constraints
    )
    policy = CallPolicy(spec, capabilities, lambda text: notices.setdefault(text))
    request = ChatRequest(messages=(), constraint=constraint, template_kwargs={}, body={})
    for _ in range(2):
        enforced = policy.choose_constraint(request, "scout", trained)
    return enforced, policy.find_untrained_reason(enforced, trained), list(notices)


@pytest.mark.parametrize("constraints", ["ignore", "enforce"])
@pytest.mark.parametrize(
    ("constraint", "capabilities", "name"), [(JSON, NONE, "JSON output"), (TOOL, JSON_ONLY, "a required tool call")]
)
def test_an_answer_that_the_engine_cannot_constrain_is_free_and_trained(
    constraint: Any, capabilities: Capabilities, name: str, constraints: str
) -> None:
    assert settle(constraint, capabilities, constraints, True) == (None, None, [UNABLE.format(name) + FREE])


def test_constraints_of_trained_calls_are_ignored_by_default() -> None:
    assert EpisodeSpec(episode_id="e", seed=0, sampling=Sampling(), max_model_len=1, trainable_targets=()).constraints == "ignore"
    assert settle(JSON, JSON_ONLY, "ignore", True) == (None, None, [IGNORED.format("JSON output") + FREE])


def test_an_enforced_answer_is_constrained_and_not_trained() -> None:
    assert settle(JSON, JSON_ONLY, "enforce", True) == (JSON, "constrained", [ENFORCED.format("JSON output")])


@pytest.mark.parametrize("constraints", ["ignore", "enforce"])
def test_a_frozen_agents_answer_is_constrained_wherever_the_engine_can(constraints: str) -> None:
    assert settle(JSON, JSON_ONLY, constraints, False) == (JSON, "frozen_agent", [])


def test_the_notice_promises_no_training_where_there_is_none() -> None:
    sampled = f"Its answers are sampled freely; {CHECK}"
    assert settle(JSON, NO_LOGPROBS, "ignore", True) == (None, "no_logprobs", [UNABLE.format("JSON output") + sampled])
    assert settle(JSON, NONE, "ignore", False) == (None, "frozen_agent", [UNABLE.format("JSON output") + sampled])


@pytest.mark.parametrize("constraints", ["ignore", "enforce"])
def test_a_call_without_a_constraint_is_trained(constraints: str) -> None:
    assert settle(None, JSON_ONLY, constraints, True) == (None, None, [])
