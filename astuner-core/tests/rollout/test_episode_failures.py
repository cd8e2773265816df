"""Which failures of an episode are final, which are not the model's, and what they are worth."""

from __future__ import annotations

import httpx
import httpx2
import openai
import pytest

from astuner.contract.errors import ServiceUnavailable
from astuner.episodes.containment.surroundings import find_surroundings_failure
from astuner.episodes.rollout.episode_failures import (
    OWN,
    SURROUNDINGS,
    classify_error,
    make_failure_verdict,
)
from astuner.settings.config.rollout import FailureRewards, Rollout

REQUEST = httpx.Request("POST", "http://localhost")


def caused_by(cause: BaseException) -> Exception:
    try:
        raise RuntimeError("the tool failed") from cause
    except RuntimeError as error:
        return error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionRefusedError("refused"), "connection_lost"),
        (httpx.ConnectError("refused"), "connection_lost"),
        (httpx.RemoteProtocolError("cut off"), "connection_lost"),
        (httpx2.ConnectError("refused"), "connection_lost"),
        (httpx2.ReadTimeout("a long answer"), None),
        (openai.APIConnectionError(request=REQUEST), "connection_lost"),
        (caused_by(ConnectionResetError("reset")), "connection_lost"),
        (ExceptionGroup("tools", [ValueError("x"), ConnectionResetError("reset")]), "connection_lost"),
        (ServiceUnavailable("the sandbox is full"), "service_unavailable"),
        (caused_by(ServiceUnavailable("the sandbox is full")), "service_unavailable"),
        (BrokenPipeError("the model's code ended the process"), None),
        (openai.APITimeoutError(request=REQUEST), None),
        (httpx.ReadTimeout("a long answer"), None),
        (TimeoutError("my own"), None),
        (ValueError("bad JSON"), None),
    ],
)
def test_errors_of_connections_are_those_of_the_surroundings(error: Exception, reason: str | None) -> None:
    assert find_surroundings_failure(error) == reason


def test_an_error_that_was_handled_before_does_not_count() -> None:
    error = ValueError("bad JSON")
    error.__context__, error.__suppress_context__ = ConnectionResetError("reset"), True
    assert find_surroundings_failure(error) is None


@pytest.mark.parametrize(
    ("error", "of_calls", "reason"),
    [
        (ValueError("no answer"), "engine_lost", "engine_lost"),
        (ValueError("no answer"), "context_full", "context_full"),
        (httpx.ReadError("cut off"), "max_steps", "max_steps"),
        (ServiceUnavailable("full"), "context_full", "service_unavailable"),
        (ValueError("bad JSON"), None, "workflow_error"),
    ],
)
def test_the_gateway_knows_why_a_call_of_an_agent_failed(error: Exception, of_calls: str | None, reason: str) -> None:
    assert classify_error(error, of_calls=of_calls) == reason


def test_every_reason_of_the_model_has_a_reward_to_configure() -> None:
    assert {attribute.name for attribute in FailureRewards.__attrs_attrs__} == OWN  # type: ignore[attr-defined]  # attrs adds it
    assert not OWN & SURROUNDINGS


def test_by_default_a_full_context_and_the_last_step_are_worth_0_and_the_others_nothing() -> None:
    rewards = {reason: make_failure_verdict(reason, FailureRewards()) for reason in sorted(OWN | SURROUNDINGS)}
    assert {reason: verdict.reward for reason, verdict in rewards.items() if verdict is not None} == {
        "context_full": 0.0,
        "max_steps": 0.0,
    }


def test_the_verdict_on_a_failure_says_which_key_gave_it() -> None:
    verdict = make_failure_verdict("workflow_error", FailureRewards(workflow_error=-0.5))
    assert verdict is not None
    assert (verdict.reward, verdict.is_success, verdict.presumed) == (-0.5, False, True)
    assert "rollout.failure_rewards.workflow_error" in (verdict.rationale or "")


@pytest.mark.parametrize("reward", [float("nan"), 1e308])
def test_a_reward_whose_advantage_is_not_finite_is_refused(reward: float) -> None:
    with pytest.raises(ValueError, match=r"'timeout' must be a finite number between -1e\+12 and 1e\+12"):
        FailureRewards(timeout=reward)
    with pytest.raises(ValueError, match="'agent_madness_reward' must be a finite number"):
        Rollout(agent_madness_reward=reward)
