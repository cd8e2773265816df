"""What any field of OpenAI's APIs may hold, and how each of them refuses a body.

A module that imports these tests has `BODIES` with all fields, by path.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from astuner.contract.schema import Capabilities, Chunk, Request

Bodies = Mapping[str, Any]

ODD = [
    None,
    True,
    0,
    -1,
    1.5,
    10**400,
    "",
    "x",
    "\ud800",
    [],
    {},
    [[]],
    [None],
    [5],
    {"type": []},
    {"type": "function"},
    {"x": 1},
]
"""Values of every JSON type, few of them right anywhere."""


@asynccontextmanager
async def http(stage: Any) -> AsyncIterator[httpx.AsyncClient]:
    api = stage.recorder.tuner.as_oai_baseurl_apikey("scout")
    async with httpx.AsyncClient(base_url=api.base_url, headers={"Authorization": f"Bearer {api.api_key}"}) as client:
        yield client


class Down:
    """An engine whose server is gone."""

    capabilities = Capabilities()

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def release(self, session: str) -> None: ...

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        raise ConnectionRefusedError("no engine at 127.0.0.1")
        yield


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "value",
    ["NaN", "-Infinity", "1e400", "1" + "0" * 5000, "[" * 101 + "]" * 101, '{"a":' * 900 + "1" + "}" * 900],
    ids=["nan", "infinity", "too large", "too many digits", "deep list", "deep object"],
)
async def test_numbers_and_nestings_that_nothing_could_carry_are_400(
    serving: Any, bodies: Bodies, api_path: str, value: str
) -> None:
    body = json.dumps({**bodies[api_path], "metadata": "VALUE"}).replace('"VALUE"', value)
    async with serving("yes") as stage, http(stage) as client:
        response = await client.post(api_path, content=body)
    assert response.status_code == 400
    assert response.json()["error"]["message"]


@pytest.mark.asyncio
async def test_every_field_takes_or_refuses_a_value_of_any_type(serving: Any, bodies: Bodies, api_path: str) -> None:
    valid = bodies[api_path]
    sent = [{**valid, name: value} for name in valid for value in ODD]
    if api_path != "/completions":
        name = "messages" if api_path == "/chat/completions" else "input"
        items = valid[name]
        odd_items = [
            [*items[:place], {**item, key: value}, *items[place + 1 :]]
            for place, item in enumerate(items)
            for key in item
            for value in ODD
        ]
        sent += [{**valid, name: changed} for changed in odd_items]
    async with serving(lambda prompt, request: "yes") as stage, http(stage) as client:
        statuses = {(await client.post(api_path, content=json.dumps(body))).status_code for body in sent}
    assert statuses == {200, 400}


@pytest.mark.asyncio
async def test_errors_have_one_shape_in_every_api_of_openai(serving: Any, bodies: Bodies, api_path: str) -> None:
    body = bodies[api_path]
    async with serving(engine=Down(), max_steps=1, gateway={"max_body_bytes": 5000}) as stage, http(stage) as client:
        responses = [
            await client.post(api_path, json={**body, "x": "y" * 5000}),
            await client.post(api_path, json=body, headers={"Authorization": "Bearer x"}),
            await client.post(api_path, json=body),
            await client.post(api_path, json=body),
        ]
    assert [response.status_code for response in responses] == [413, 401, 503, 403]
    assert {tuple(response.json()["error"]) for response in responses} == {("message", "type", "param", "code")}
    assert responses[2].headers["retry-after"] == "1"
