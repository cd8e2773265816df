"""`SERVED@TAG`: a request names its target by its model, in every API, and can only take training away."""

from __future__ import annotations

from typing import Any

import pytest
from api_targets import (
    post,
)
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
}
COUNTS: dict[str, Any] = {}
TAGS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True)


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
async def test_a_long_body_names_its_target_too(serving: Any) -> None:
    long = [{"role": "user", "content": "word " * 60_000}]
    async with serving("yes", trainable_targets=["agent"], max_model_len=10**6) as stage:
        await post(stage, "/chat/completions", BODIES, "astuner@side", messages=long)
    assert [call.untrained for call in stage.recorder.calls] == ["frozen_agent"]


@pytest.mark.asyncio
async def test_side_calls_do_not_use_up_the_steps_of_the_agent(serving: Any) -> None:
    async with serving("yes", trainable_targets=["agent"], max_steps=2) as stage:
        models = ("astuner@side", "astuner", "astuner@side", "astuner", "astuner@side", "astuner")
        codes = [(await post(stage, "/chat/completions", BODIES, model)).status_code for model in models]
    assert codes == [200, 200, 200, 200, 200, 403]


@pytest.mark.asyncio
async def test_a_main_line_goes_on_past_side_calls_of_its_own_conversation(serving: Any) -> None:
    async with serving(["one", "A title", "two"], trainable_targets=["agent"]) as stage:
        await post(stage, "/chat/completions", BODIES, "astuner")
        history = [*USER, {"role": "assistant", "content": "one"}]
        await post(
            stage, "/chat/completions", BODIES, "astuner@title", messages=[*history, {"role": "user", "content": "a title"}]
        )
        await post(stage, "/chat/completions", BODIES, "astuner", messages=[*history, {"role": "user", "content": "go on"}])
    assert [(call.parent, call.untrained) for call in stage.recorder.calls] == [(None, None), (0, "frozen_agent"), (0, None)]


@pytest.mark.asyncio
async def test_the_model_of_a_target_is_listed_by_its_name(serving: Any) -> None:
    async with serving("yes") as stage:
        found = await stage.client().models.retrieve("astuner@side")
    assert found.id == "astuner@side"


@pytest.mark.asyncio
async def test_the_transcript_names_the_target(serving: Any) -> None:
    async with serving("yes", trainable_targets=["agent"]) as stage:
        await post(stage, "/chat/completions", BODIES, "astuner")
        await post(stage, "/chat/completions", BODIES, "astuner@title")
    lines = format_transcript(evolve(episode(), calls=stage.recorder.calls), tokens=True).splitlines()
    assert [line for line in lines if "assistant" in line] == ["  assistant: yes", "  assistant (agent@title): yes"]


@pytest.mark.asyncio
async def test_an_agent_has_one_adapter_and_may_ask_others_besides(serving: Any) -> None:
    async with serving("yes", adapters=("solver", "critic"), opponents=("rival",)) as stage:
        models = [f"astuner@{tag}" for tag in ("title", "solver", "rival", "critic", "solver")]
        answers = [await post(stage, "/chat/completions", BODIES, model, target="solver") for model in models]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 400, 200]
    error = answers[3].json()["error"]
    assert error["code"] == "several_targets"
    assert "'agent' is answered by the adapters of 'solver', and now asks for 'critic'" in error["message"]
    assert [call.untrained for call in stage.recorder.calls] == ["frozen_agent", None, "frozen_agent", None]


@pytest.mark.asyncio
async def test_only_targets_with_adapters_are_trained_and_engines_learn_whose_call_it_is(serving: Any) -> None:
    async with serving("yes", adapters=("agent",)) as stage:
        await post(stage, "/chat/completions", BODIES, "astuner")
    async with serving("yes", adapters=("other",)) as bare:
        await post(bare, "/chat/completions", BODIES, "astuner")
    async with serving("yes", opponents=("agent",)) as opposed:
        await post(opposed, "/chat/completions", BODIES, "astuner")
    found = [[call.untrained for call in one.recorder.calls] for one in (stage, bare, opposed)]
    assert found == [[None], ["frozen_agent"], ["frozen_agent"]]
