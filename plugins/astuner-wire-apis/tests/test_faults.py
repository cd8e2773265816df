"""What goes wrong around the gateway, with the APIs of this package."""

from __future__ import annotations

from typing import Any

from api_faults import (  # noqa: F401 - these tests are run for the paths below
    test_a_body_over_the_limit_is_413_before_its_end,
    test_a_key_reaches_no_episode_but_its_own,
    test_an_engine_that_is_down_is_503_with_a_time_to_ask_again,
    test_an_expired_or_foreign_key_reaches_nothing,
    test_killing_the_agents_process_frees_its_slot,
    test_the_log_holds_no_key_and_no_word_of_a_body,
)

from astuner.model.gateway.wire_apis import ModelRoute
from astuner_wire_apis.anthropic_messages import ANTHROPIC_MESSAGES
from astuner_wire_apis.completions import COMPLETIONS
from astuner_wire_apis.gemini_content import GEMINI_CONTENT
from astuner_wire_apis.responses import RESPONSES

USER = [{"role": "user", "content": "the launch code is 0451"}]
CONTENTS = [{"role": "user", "parts": [{"text": "the launch code is 0451"}]}]
BODIES: dict[str, Any] = {
    "/v1/completions": {"prompt": "the launch code is 0451"},
    "/v1/responses": {"input": USER},
    "/v1/messages": {"messages": USER, "max_tokens": 50},
    "/v1beta/models/{model}:generateContent": {"contents": CONTENTS},
    "/v1beta/models/{model}:streamGenerateContent": {"contents": CONTENTS},
}
COUNTS: dict[str, Any] = {
    "/v1/messages/count_tokens": BODIES["/v1/messages"],
    "/v1beta/models/{model}:countTokens": {"contents": CONTENTS},
}


def test_every_api_is_tried_here() -> None:
    apis = (ANTHROPIC_MESSAGES, COMPLETIONS, GEMINI_CONTENT, RESPONSES)
    paths = {route.path for api in apis for route in api.routes if not isinstance(route, ModelRoute)}
    assert {*BODIES, *COUNTS} == {path for path in paths if not path.startswith(("/v1alpha", "/v1/models"))}
