"""The clients that a tuner hands out: in the gateway's process they need no socket, elsewhere they use it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

ASKED = {"model": "any", "max_tokens": 50, "messages": [{"role": "user", "content": "Hello?"}]}


@pytest.mark.asyncio
async def test_the_anthropic_client_skips_the_socket(playing: Callable[..., Any]):
    async with playing(("Yes.",), public_url="http://nowhere.invalid") as stage:
        reply = await stage.recorder.tuner.as_raw_anthropic_sdk_client().messages.create(**ASKED)
    assert [block.text for block in reply.content] == ["Yes."]


@pytest.mark.asyncio
async def test_in_another_process_it_goes_through_the_socket(playing: Callable[..., Any]):
    async with playing(("Yes.",)) as stage:
        tuner = pickle.loads(pickle.dumps(stage.recorder.tuner))
        async with tuner.as_raw_anthropic_sdk_client("scout") as client:
            await client.messages.create(**ASKED)
        (call,) = stage.recorder.calls
    assert call.agent == "scout"


@pytest.mark.asyncio
async def test_anthropics_sdk_adds_the_version_to_the_base_url_itself(playing: Callable[..., Any]):
    async with playing((), public_url="http://node7:9000/v1") as stage:
        api = stage.recorder.tuner.as_oai_baseurl_apikey()
    assert (api.base_url, api.anthropic_base_url) == ("http://node7:9000/v1", "http://node7:9000")


@pytest.mark.agentscope1
@pytest.mark.asyncio
async def test_two_sdks_with_two_http_libraries_share_a_gateway(playing: Callable[..., Any]):
    # openai 2, which AgentScope 1 needs, makes its requests with httpx, and anthropic 2 with httpx2.
    async with playing(("Yes.", "No."), public_url="http://nowhere.invalid") as stage:
        tuner = stage.recorder.tuner
        await tuner.as_raw_anthropic_sdk_client().messages.create(**ASKED)
        await tuner.as_raw_openai_sdk_client().chat.completions.create(**ASKED)
    assert [call.reply["content"] for call in stage.recorder.calls] == ["Yes.", "No."]
