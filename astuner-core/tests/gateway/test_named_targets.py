"""`SERVED@TAG`: a request names its target by its model, in every API, and can only take training away."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st

from astuner.contract.schema import Sampling
from astuner.episodes.transcript.episode_text import format_transcript
from astuner.model.gateway.api_keys import Caller, read_target_tag
from astuner.model.gateway.recording.episode_spec import EpisodeSpec
from astuner.model.rendering.errors import ApiError
from astuner_devkit.episodes import episode

USER = [{"role": "user", "content": "hello"}]
BODIES: dict[str, dict[str, Any]] = {
    "/chat/completions": {"messages": USER},
    "/completions": {"prompt": "hello"},
    "/responses": {"input": USER},
    "/messages": {"messages": USER, "max_tokens": 50},
}
TAGS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True)


async def post(
    stage: Any, path: str, model: Any, *, agent: str = "agent", target: str | None = None, **more: Any
) -> httpx.Response:
    api = stage.recorder.tuner.as_oai_baseurl_apikey(agent, target)
    headers = {"x-api-key": api.api_key, "authorization": f"Bearer {api.api_key}"}
    async with httpx.AsyncClient(base_url=api.base_url, headers=headers, timeout=None) as client:
        return await client.post(path, json={**BODIES[path], "model": model, **more})


@given(TAGS)
def test_a_tag_after_the_served_name_is_read(tag: str) -> None:
    assert read_target_tag(f"astuner@{tag}", "astuner") == tag


@given(st.text().filter(lambda name: "@" not in name))
def test_names_without_a_tag_are_any(name: str) -> None:
    assert read_target_tag(name, "astuner") is None


@given(st.text(), st.text())
@example("astuner", "side\n")
@example("astuner", "")
@example("Astuner", "side")
@example("astuner ", "side")
@example("astuner", "a@b")
@example("astuner", "ſide")
@example("", "side")
def test_no_other_name_with_an_at_sign_is_served(name: str, tag: str) -> None:
    allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
    if name == "astuner" and 0 < len(tag) <= 64 and set(tag) <= set(allowed) and tag[0] not in "._-":
        assert read_target_tag(f"{name}@{tag}", "astuner") == tag
    else:
        with pytest.raises(ApiError) as caught:
            read_target_tag(f"{name}@{tag}", "astuner")
        assert (caught.value.status, caught.value.code, caught.value.param) == (404, "model_not_found", "model")


def test_a_served_name_with_an_at_sign_is_not_a_tag() -> None:
    assert read_target_tag("org@model", "org@model") is None
    assert read_target_tag("org@model@side", "org@model") == "side"


@pytest.mark.parametrize("model", [None, 5, ["astuner@side"], {}])
def test_a_model_that_is_not_a_text_names_nothing(model: Any) -> None:
    assert read_target_tag(model, "astuner") is None


@given(
    st.lists(st.sampled_from("abc"), max_size=3, unique=True),
    st.sampled_from("abc"),
    st.sampled_from(["a", "b", "c", None]),
)
def test_a_request_trains_only_what_its_key_and_its_tag_both_may(trainable: list[str], key: str, tag: str | None) -> None:
    spec = EpisodeSpec(episode_id="e", seed=0, sampling=Sampling(), max_model_len=100, trainable_targets=trainable)
    caller = Caller("secret", "agent", key).retarget(tag)
    assert all(map(spec.trains, caller.targets)) == (key in trainable and (tag or key) in trainable)
    assert caller.target_tag == (tag or key)
    assert caller.name == ("agent" if tag in (None, key) else f"agent@{tag}")


@pytest.mark.asyncio
@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_side_call_is_recorded_and_not_trained(serving: Any, path: str, stream: bool) -> None:
    async with serving("yes", trainable_targets=["main"]) as stage:
        for model in ("astuner", "astuner@side", "anything", "astuner@main"):
            assert (await post(stage, path, model, target="main", stream=stream)).status_code == 200
    assert [(call.agent, call.target_tag, call.untrained) for call in stage.recorder.calls] == [
        ("agent", "main", None),
        ("agent", "side", "frozen_agent"),
        ("agent", "main", None),
        ("agent", "main", None),
    ]


@pytest.mark.asyncio
@pytest.mark.parametrize("path", BODIES)
async def test_a_frozen_key_trains_nothing_whatever_its_requests_name(serving: Any, path: str) -> None:
    async with serving("yes", trainable_targets=["main"]) as stage:
        await post(stage, path, "astuner@main", agent="judge")
    assert [(call.target_tag, call.untrained) for call in stage.recorder.calls] == [("main", "frozen_agent")]


@pytest.mark.asyncio
@pytest.mark.parametrize("path", BODIES)
async def test_a_misspelt_name_is_refused_with_what_is_served(serving: Any, path: str) -> None:
    async with serving("yes", trainable_targets=["agent"]) as stage:
        answer = await post(stage, path, "astunr@side")
    assert answer.status_code == 404
    assert "'astuner@TAG'" in answer.json()["error"]["message"]
    assert not stage.recorder.calls


@pytest.mark.asyncio
async def test_a_long_body_names_its_target_too(serving: Any) -> None:
    long = [{"role": "user", "content": "word " * 60_000}]
    async with serving("yes", trainable_targets=["agent"], max_model_len=10**6) as stage:
        await post(stage, "/chat/completions", "astuner@side", messages=long)
    assert [call.untrained for call in stage.recorder.calls] == ["frozen_agent"]


@pytest.mark.asyncio
async def test_side_calls_do_not_use_up_the_steps_of_the_agent(serving: Any) -> None:
    async with serving("yes", trainable_targets=["agent"], max_steps=2) as stage:
        models = ("astuner@side", "astuner", "astuner@side", "astuner", "astuner@side", "astuner")
        codes = [(await post(stage, "/chat/completions", model)).status_code for model in models]
    assert codes == [200, 200, 200, 200, 200, 403]


@pytest.mark.asyncio
async def test_a_main_line_goes_on_past_side_calls_of_its_own_conversation(serving: Any) -> None:
    async with serving(["one", "A title", "two"], trainable_targets=["agent"]) as stage:
        await post(stage, "/chat/completions", "astuner")
        history = [*USER, {"role": "assistant", "content": "one"}]
        await post(stage, "/chat/completions", "astuner@title", messages=[*history, {"role": "user", "content": "a title"}])
        await post(stage, "/chat/completions", "astuner", messages=[*history, {"role": "user", "content": "go on"}])
    assert [(call.parent, call.untrained) for call in stage.recorder.calls] == [(None, None), (0, "frozen_agent"), (0, None)]


@pytest.mark.asyncio
async def test_the_model_of_a_target_is_listed_by_its_name(serving: Any) -> None:
    async with serving("yes") as stage:
        found = await stage.client().models.retrieve("astuner@side")
    assert found.id == "astuner@side"


@pytest.mark.asyncio
async def test_the_transcript_names_the_target(serving: Any) -> None:
    async with serving("yes", trainable_targets=["agent"]) as stage:
        await post(stage, "/chat/completions", "astuner")
        await post(stage, "/chat/completions", "astuner@title")
    lines = format_transcript(evolve(episode(), calls=stage.recorder.calls), tokens=True).splitlines()
    assert [line for line in lines if "assistant" in line] == ["  assistant: yes", "  assistant (agent@title): yes"]


@pytest.mark.asyncio
@pytest.mark.parametrize("path", [*BODIES, "/messages/count_tokens"])
@pytest.mark.parametrize("model", ["astuner", "astuner@side"])
async def test_a_key_ends_with_its_episode_in_every_api(serving: Any, path: str, model: str) -> None:
    async with serving("yes") as stage:
        await stage.recorder.close()
        await asyncio.sleep(0)
        body = BODIES.get(path, BODIES["/messages"])
        api = stage.recorder.tuner.as_oai_baseurl_apikey("agent")
        headers = {"x-api-key": api.api_key, "authorization": f"Bearer {api.api_key}"}
        async with httpx.AsyncClient(base_url=api.base_url, headers=headers) as client:
            answer = await client.post(path, json={**body, "model": model})
    assert answer.status_code == 401
    assert "no open episode" in answer.json()["error"]["message"]
    assert not stage.recorder.calls
