"""`SERVED@TAG`: a request names its target by its model, in any wire API, and can only take training away.

A module that imports these tests has `BODIES` of the routes that generate, and `COUNTS` of those that count, by path.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

Bodies = Mapping[str, Any]


async def post(
    stage: Any, path: str, bodies: Bodies, model: Any, *, agent: str = "agent", target: str | None = None, **more: Any
) -> httpx.Response:
    api = stage.recorder.tuner.as_oai_baseurl_apikey(agent, target)
    headers = {"x-api-key": api.api_key, "authorization": f"Bearer {api.api_key}"}
    async with httpx.AsyncClient(base_url=api.base_url, headers=headers, timeout=None) as client:
        return await client.post(path, json={**bodies[path], "model": model, **more})


@pytest.mark.asyncio
@pytest.mark.parametrize("stream", [False, True])
async def test_a_side_call_is_recorded_and_not_trained(serving: Any, bodies: Bodies, api_path: str, stream: bool) -> None:
    async with serving("yes", trainable_targets=["main"]) as stage:
        for model in ("astuner", "astuner@side", "anything", "astuner@main"):
            assert (await post(stage, api_path, bodies, model, target="main", stream=stream)).status_code == 200
    assert [(call.agent, call.target_tag, call.untrained) for call in stage.recorder.calls] == [
        ("agent", "main", None),
        ("agent", "side", "frozen_agent"),
        ("agent", "main", None),
        ("agent", "main", None),
    ]


@pytest.mark.asyncio
async def test_a_frozen_key_trains_nothing_whatever_its_requests_name(serving: Any, bodies: Bodies, api_path: str) -> None:
    async with serving("yes", trainable_targets=["main"]) as stage:
        await post(stage, api_path, bodies, "astuner@main", agent="judge")
    assert [(call.target_tag, call.untrained) for call in stage.recorder.calls] == [("main", "frozen_agent")]


@pytest.mark.asyncio
async def test_a_misspelt_name_is_refused_with_what_is_served(serving: Any, bodies: Bodies, api_path: str) -> None:
    async with serving("yes", trainable_targets=["agent"]) as stage:
        answer = await post(stage, api_path, bodies, "astunr@side")
    assert answer.status_code == 404
    assert "'astuner@TAG'" in answer.json()["error"]["message"]
    assert not stage.recorder.calls


@pytest.mark.asyncio
@pytest.mark.parametrize("model", ["astuner", "astuner@side"])
async def test_a_key_ends_with_its_episode_in_every_api(serving: Any, bodies: Bodies, any_path: str, model: str) -> None:
    async with serving("yes") as stage:
        await stage.recorder.close()
        await asyncio.sleep(0)
        api = stage.recorder.tuner.as_oai_baseurl_apikey("agent")
        headers = {"x-api-key": api.api_key, "authorization": f"Bearer {api.api_key}"}
        async with httpx.AsyncClient(base_url=api.base_url, headers=headers) as client:
            answer = await client.post(any_path, json={**bodies[any_path], "model": model})
    assert answer.status_code == 401
    assert "no open episode" in answer.json()["error"]["message"]
    assert not stage.recorder.calls
