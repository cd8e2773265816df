from __future__ import annotations

import pytest

from astuner.gateway.recording.call_policy import CallPolicy
from astuner.gateway.recording.episode_spec import EpisodeSpec
from astuner.gateway.recording.request import ChatRequest
from astuner.schema import Capabilities, Sampling

SOME = Capabilities(constrained=True, constraints=("json_object",))


def asked_for(kind: str, capabilities: Capabilities) -> tuple[str | None, list[str]]:
    """Return why the call is untrained, and what the user is told."""
    told: list[str] = []
    spec = EpisodeSpec(episode_id="e", seed=0, sampling=Sampling(), max_model_len=64, trainable_targets=None)
    request = ChatRequest(messages=(), constraint={"type": kind}, template_kwargs={}, body={})
    return CallPolicy(spec, capabilities, told.append).find_untrained_reason(request, trained=True), told


@pytest.mark.parametrize(
    ("kind", "capabilities", "told"),
    [
        ("json_object", SOME, False),
        ("tool_call", SOME, True),
        ("json_object", Capabilities(), True),
        ("tool_call", Capabilities(constrained=True), False),
    ],
)
def test_a_grammar_that_the_engine_does_not_understand_is_told_of(kind: str, capabilities: Capabilities, told: bool) -> None:
    untrained, notices = asked_for(kind, capabilities)
    assert untrained == "constrained"
    assert told == any(f"'{kind}' has no effect" in text for text in notices)
