"""Targets that the model of a request names, in the APIs of this package."""

from __future__ import annotations

from typing import Any

from api_targets import (  # noqa: F401 - these tests are run for the paths below
    test_a_frozen_key_trains_nothing_whatever_its_requests_name,
    test_a_key_ends_with_its_episode_in_every_api,
    test_a_misspelt_name_is_refused_with_what_is_served,
    test_a_side_call_is_recorded_and_not_trained,
)

USER = [{"role": "user", "content": "hello"}]
BODIES: dict[str, Any] = {
    "/completions": {"prompt": "hello"},
    "/responses": {"input": USER},
    "/messages": {"messages": USER, "max_tokens": 50},
}
COUNTS: dict[str, Any] = {"/messages/count_tokens": BODIES["/messages"]}
