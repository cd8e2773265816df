"""What goes wrong around the gateway, with chat completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from api_faults import (  # noqa: F401 - these tests are run for the paths below
    test_a_body_over_the_limit_is_413_before_its_end,
    test_a_key_reaches_no_episode_but_its_own,
    test_an_engine_that_is_down_is_503_with_a_time_to_ask_again,
    test_an_expired_or_foreign_key_reaches_nothing,
    test_killing_the_agents_process_frees_its_slot,
    test_the_log_holds_no_key_and_no_word_of_a_body,
)

from astuner.model.gateway.api_keys import mint
from astuner.model.http_server import ServerLimits

BODIES = {"/v1/chat/completions": {"messages": [{"role": "user", "content": "the launch code is 0451"}]}}
COUNTS: Mapping[str, Any] = {}


@pytest.mark.asyncio
async def test_keys_are_random_for_each_episode_and_say_the_agent(serving: Any) -> None:
    async with serving("yes") as stage:
        episodes = [stage.gateway.open_episode(stage.recorder.spec) for _ in range(50)]
        secrets = {episode.tuner.remote().secret for episode in episodes}
        keys = {episode.tuner.as_oai_baseurl_apikey(agent).api_key for episode in episodes for agent in ("a", "b")}
    assert (len(secrets), len(keys)) == (50, 100)
    assert all(len(secret) > 40 for secret in secrets)


def test_clients_give_idle_connections_up_before_the_gateway_does() -> None:
    assert httpx.Limits().keepalive_expiry < ServerLimits().idle_timeout_s


def test_a_tuner_does_not_show_its_key() -> None:
    from astuner.model.gateway.tuner import RemoteTuner

    tuner = RemoteTuner("http://x/v1", "sk-astuner-0451", "m")
    assert "0451" not in repr(tuner) + repr(tuner.as_oai_baseurl_apikey())
    assert tuner.as_oai_baseurl_apikey().api_key == mint("sk-astuner-0451", "agent", None)
