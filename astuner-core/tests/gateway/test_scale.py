"""Many episodes at once: nothing is lost and nothing is mixed."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import httpx

from astuner.contract.schema import Request, Sampling
from astuner.contract.token_streams import stream_ids
from astuner.episodes.builtin.engines.scripted_engine import ScriptedEngine
from astuner.model.gateway import EpisodeRecorder, EpisodeSpec, Gateway
from astuner.model.gateway.transport import make_client
from astuner.model.rendering import TemplateRenderer

EPISODES, TURNS = 200, 20


def echo(prompt: str, request: Request) -> str:
    """Say again what was asked last."""
    return f"heard {re.findall(r'episode w[0-9]+ turn [0-9]+', prompt)[-1]}"


async def hold(client: Any, recorder: EpisodeRecorder, number: int) -> list[str]:
    endpoint = recorder.tuner.as_oai_baseurl_apikey(f"agent{number}")
    headers = {"Authorization": f"Bearer {endpoint.api_key}"}
    messages: list[dict[str, Any]] = []
    replies = []
    for turn in range(TURNS):
        messages.append({"role": "user", "content": f"episode w{number} turn {turn}"})
        body = {"model": "m", "messages": messages}
        answer = await client.post(f"{endpoint.base_url}/chat/completions", json=body, headers=headers)
        assert answer.status_code == 200
        messages.append(answer.json()["choices"][0]["message"])
        replies.append(messages[-1]["content"])
    return replies


def test_two_hundred_concurrent_episodes_lose_and_mix_no_call(renderer: TemplateRenderer) -> None:
    async def play() -> tuple[list[EpisodeRecorder], list[list[str]]]:
        engine = ScriptedEngine(ScriptedEngine.Options(delay_s=0.001), tokenizer=renderer.tokenizer, reply=echo)
        gateway = Gateway(engine, renderer)
        await gateway.start()
        recorders = [gateway.open_episode(spec(number)) for number in range(EPISODES)]
        client = make_client(gateway._app, asyncio.get_running_loop(), httpx)  # type: ignore[arg-type] # it is there once started
        async with asyncio.timeout(180):
            replies = await asyncio.gather(*(hold(client, recorder, number) for number, recorder in enumerate(recorders)))
        await gateway.close()
        return recorders, replies

    recorders, replies = asyncio.run(play())
    for number, recorder in enumerate(recorders):
        calls = recorder.calls
        said = [f"heard episode w{number} turn {turn}" for turn in range(TURNS)]
        assert replies[number] == said
        assert [call.reply["content"] for call in calls] == said
        assert [call.agent for call in calls] == [f"agent{number}"] * TURNS
        assert [call.index for call in calls] == list(range(TURNS))
        assert [call.parent for call in calls] == [None, *range(TURNS - 1)]
        stream = renderer.decode(stream_ids(calls, TURNS - 1).tolist())
        asked_and_said = [f"w{number} turn {turn}" for turn in range(TURNS) for _ in range(2)]
        assert re.findall(r"w[0-9]+ turn [0-9]+", stream) == asked_and_said


def spec(number: int) -> EpisodeSpec:
    return EpisodeSpec(
        episode_id=f"train/1/{number}/0",
        seed=number,
        sampling=Sampling(max_tokens=60),
        max_model_len=4000,
        trainable_targets=None,
    )
