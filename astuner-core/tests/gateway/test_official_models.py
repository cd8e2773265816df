"""Models with official templates, through the gateway: what the agent reads, what the model is shown, what is trained."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from official_templates import make_tokenizer, official_renderer, read_template

from astuner.contract.errors import AstunerError
from astuner.contract.protocols import EpisodeIdentity
from astuner.contract.token_streams import stream_ids
from astuner.episodes.builtin.trackers.timeline import TimelineTracker
from astuner.model.rendering import TemplateRenderer

OPEN_R1 = re.compile(r"^<think>\n.*?\n</think>\n<answer>\n.*?\n</answer>$", re.DOTALL)
"""The format that Open-R1's reward asks for."""
PERFECT = "<think>\n57 times 83 is 4731\n</think>\n<answer>\n4731\n</answer>"
USER = {"role": "user", "content": "57*83?"}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "d",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
WITHOUT_REASONING = ["qwen2_5", "llama3", "llama3_1", "gemma3", "phi3", "qwen3_instruct_2507"]
WITHOUT_TOOLS = ["llama3", "gemma", "gemma3", "phi3", "cohere", "deepseekv3", "deepseek_r1_distill"]


@pytest.fixture(params=WITHOUT_REASONING)
def renderer(request: pytest.FixtureRequest) -> TemplateRenderer:
    return official_renderer(request.param)


def count_rows(stage: Any) -> int:
    identity = EpisodeIdentity(episode_id="e", task_id="t", repeat=0)
    return len(TimelineTracker().samples(stage.recorder.calls, identity).samples)


@pytest.mark.asyncio
async def test_a_perfect_answer_matches_the_format_of_open_r1(serving: Any) -> None:
    async with serving(PERFECT) as stage:
        answer = await stage.client().chat.completions.create(model="any", messages=[USER])
    message = answer.choices[0].message
    assert OPEN_R1.match(message.content)
    assert not hasattr(message, "reasoning_content")


@pytest.mark.asyncio
async def test_a_streamed_answer_matches_it_too(serving: Any) -> None:
    async with serving(PERFECT) as stage:
        stream = await stage.client().chat.completions.create(model="any", messages=[USER], stream=True)
        texts = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert OPEN_R1.match("".join(texts))


@pytest.mark.asyncio
async def test_three_echoed_thoughts_are_one_row(serving: Any) -> None:
    async with serving(PERFECT) as stage:
        messages: list[Any] = [USER]
        for _ in range(3):
            answer = await stage.client().chat.completions.create(model="any", messages=messages)
            messages += [answer.choices[0].message.model_dump(exclude_none=True), {"role": "user", "content": "sure?"}]
    assert count_rows(stage) == 1


@pytest.mark.asyncio
async def test_reasoning_that_does_not_end_stays_content(serving: Any) -> None:
    async with serving("<think>\nit goes on\n") as stage:
        answer = await stage.client().chat.completions.create(model="any", messages=[USER])
    assert answer.choices[0].message.content == "<think>\nit goes on\n"


KNOWING = [
    "qwen3",
    "qwen3_5_think",
    "qwen3_5_nothink",
    "glm4moe",
    "gptoss",
    "deepseekv3",
    "deepseek_r1_distill",
    "nemotron_3_nano",
]


@pytest.mark.parametrize("family", [*KNOWING, *WITHOUT_REASONING])
def test_reasoning_is_split_where_the_template_knows_it(family: str) -> None:
    assert official_renderer(family).splits_reasoning == (family in KNOWING)


def read(
    renderer: TemplateRenderer, text: str, prompt: str = "", tools: Sequence[Mapping[str, Any]] = ()
) -> list[tuple[str, str]]:
    parser = renderer.parser(prompt, tools=tools, parallel=True)
    return [(piece.kind, piece.text) for piece in [*parser.feed(text), *parser.finish()]]


@pytest.mark.parametrize(
    ("template", "options", "said", "prompt"),
    [
        ("qwen3", {}, "<think>\na", ""),
        ("qwen3", {"reasoning": "keep"}, "<think>\na", ""),
        ("qwen2_5", {}, "<think>\na", ""),
        ("qwen3_5_think", {"reasoning": "keep"}, "a", "…<think>\n"),
        ("gptoss", {}, "<|channel|>analysis<|message|>a", ""),
    ],
)
def test_a_parser_knows_whether_reasoning_has_ended(template: str, options: Any, said: str, prompt: str) -> None:
    end = {"gptoss": "<|end|><|start|>assistant<|channel|>final<|message|>b"}.get(template, "\n</think>\n\nb")
    found = []
    for text in (said, said + end):
        parser = official_renderer(template, **options).parser(prompt, tools=(), parallel=True)
        list(parser.feed(text))
        list(parser.finish())
        found.append(parser.reasons)
    assert found == [True, False]


def test_split_and_keep_win_over_the_template() -> None:
    split, keep = official_renderer("qwen2_5", reasoning="split"), official_renderer("qwen3", reasoning="keep")
    assert read(split, "<think>a</think>b") == [("reasoning", "a"), ("content", "b")]
    assert read(keep, "<think>a</think>b") == [("content", "<think>a</think>"), ("content", "b")]


def test_reasoning_that_the_prompt_opened_is_kept_as_written() -> None:
    keep = official_renderer("qwen3_5_think", reasoning="keep")
    assert read(keep, "a\n</think>\n\nb", "…<think>\n") == [("content", "a\n</think>"), ("content", "\n\nb")]


async def play_weather(stage: Any, *, messages: Sequence[Any] = (USER,), **body: Any) -> list[Any]:
    """A call, its result, an answer; return all messages."""
    found = list(messages)
    for _ in range(2):
        answer = await stage.client().chat.completions.create(model="any", messages=found, tools=[WEATHER], **body)
        message = answer.choices[0].message.model_dump(exclude_none=True)
        results = [{"role": "tool", "tool_call_id": call["id"], "content": "sun"} for call in message.get("tool_calls", ())]
        found += [message, *results]
    return found


DEEPSEEK_CALL = (
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
    '{"city":  "Rome"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
)


HERMES_CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city":  "Rome"}}\n</tool_call>'


def make_first_v3() -> TemplateRenderer:
    """The template of V3's first release opens no reasoning in the header; the rest is the same."""
    tokenizer = make_tokenizer("deepseekv3")
    tokenizer.chat_template = read_template("deepseekv3").replace("<think>\\n", "")
    return TemplateRenderer(tokenizer)


class TestDeepSeek:
    @pytest.fixture
    def renderer(self) -> TemplateRenderer:
        return make_first_v3()

    @pytest.mark.asyncio
    async def test_an_echoed_call_and_its_result_continue_the_stream(self, serving: Any) -> None:
        async with serving([DEEPSEEK_CALL, "Sunny."]) as stage:
            messages = await play_weather(stage)
        assert messages[1]["tool_calls"][0]["function"]["arguments"] == '{"city":  "Rome"}'
        assert count_rows(stage) == 1


@pytest.mark.parametrize("family", ["deepseekv3", "deepseek_r1_distill"])
def test_deepseeks_own_call_is_read(family: str) -> None:
    renderer = official_renderer(family)
    assert renderer.tool_call_format == "deepseek"
    assert read(renderer, f"I look.\n</think>\n\n{DEEPSEEK_CALL}", "<｜Assistant｜><think>\n", [WEATHER]) == [
        ("reasoning", "I look."),
        ("tool_call", '{"city":  "Rome"}'),
    ]


class TestToolsInTheSystemMessage:
    @pytest.fixture(params=WITHOUT_TOOLS)
    def renderer(self, request: pytest.FixtureRequest) -> TemplateRenderer:
        return official_renderer(request.param)

    def test_it_is_said_once_before_any_episode(self, renderer: TemplateRenderer) -> None:
        assert [text for text in renderer.tool_notices if "does not show tools, so they go into the system message" in text]

    @pytest.mark.asyncio
    async def test_the_model_sees_names_schemas_and_results(self, serving: Any, renderer: TemplateRenderer) -> None:
        call = f"hm\n</think>\n\n{DEEPSEEK_CALL}" if renderer.tool_call_format == "deepseek" else HERMES_CALL
        async with serving([call, "Sunny."]) as stage:
            messages = await play_weather(stage)
            prompts = [renderer.decode(stream_ids(stage.recorder.calls, index).tolist()) for index in range(2)]
        assert '"name": "get_weather"' in prompts[0]
        assert '"city": {"type": "string"}' in prompts[0]
        assert messages[1]["tool_calls"][0]["function"]["name"] == "get_weather"
        assert "sun" in prompts[1].rpartition("get_weather")[2]

    def test_a_call_in_the_described_form_is_read(self, renderer: TemplateRenderer) -> None:
        text = renderer.render([USER], [WEATHER], generate=False, kwargs={})
        form = text.partition("in exactly this form:\n")[2]
        assert ("tool_call", '{"argument_name": "value"}') in read(renderer, form.partition(USER["content"])[0], "", [WEATHER])


def test_a_template_that_shows_tools_is_left_to_it() -> None:
    assert not official_renderer("qwen2_5").tools_in_system
    assert official_renderer("qwen2_5").notices == official_renderer("qwen2_5").tool_notices == ()


def test_tools_go_into_the_system_message_on_request() -> None:
    renderer = official_renderer("qwen2_5", tools_in_prompt="system")
    text = renderer.render([{"role": "system", "content": "Be brief."}, USER], [WEATHER], generate=True, kwargs={})
    assert text.startswith("<|im_start|>system\nBe brief.\n\n# Tools\n\nThese functions are available.")
    assert text.count("get_weather") == 1


def test_tools_left_to_a_template_that_drops_them_are_reported() -> None:
    renderer = official_renderer("gemma3", tools_in_prompt="template")
    assert not renderer.tools_in_system
    assert "does not show tools: the model sees only" in renderer.tool_notices[0]


def test_a_form_that_the_parser_does_not_read_is_refused() -> None:
    with pytest.raises(AstunerError, match=r"model.tools_in_prompt: 'system' .* tool_call_format 'glm' does not read"):
        TemplateRenderer(make_tokenizer("phi3"), tool_call_format="glm", tools_in_prompt="system")


def test_channels_cannot_be_kept() -> None:
    with pytest.raises(AstunerError, match=r"model.reasoning: 'keep' is not possible with tool_call_format 'harmony'"):
        TemplateRenderer(make_tokenizer("gptoss"), reasoning="keep")


def test_a_system_message_that_a_template_refuses_goes_before_the_first_question() -> None:
    renderer = official_renderer("gemma")
    text = renderer.render([{"role": "system", "content": "Be brief."}, USER], (), generate=True, kwargs={})
    assert "<start_of_turn>user\nBe brief.\n\n57*83?<end_of_turn>" in text
    assert [notice for notice in renderer.notices if "takes no system message" in notice]


def test_a_template_with_one_call_for_each_message_is_reported() -> None:
    assert "shows one tool call per message" in official_renderer("llama3_1").tool_notices[0]


def test_calls_that_do_not_come_back_are_reported_with_how_the_template_writes_them() -> None:
    (notice,) = official_renderer("muse_glimmer").notices
    assert "tool_call_format 'hermes' does not read back: ' to=qzprobe<|message|><atem:function_calls>" in notice
    assert "is read as text" in notice


def test_a_configured_format_that_does_not_read_the_templates_calls_is_reported() -> None:
    assert not official_renderer("qwen3").notices
    assert "tool_call_format 'glm' does not read back" in official_renderer("qwen3", tool_call_format="glm").notices[0]


class TestNames:
    @pytest.fixture
    def renderer(self) -> TemplateRenderer:
        return official_renderer("qwen2_5")

    @pytest.mark.asyncio
    async def test_speakers_that_the_model_cannot_distinguish_are_reported(self, serving: Any) -> None:
        async with serving("yes") as stage:
            speakers = [{**USER, "name": name} for name in ("ann", "bob")]
            await stage.client().chat.completions.create(model="any", messages=speakers)
        assert ["does not show the names of user messages ('ann', 'bob')" in text for text in stage.recorder.notices] == [True]

    @pytest.mark.asyncio
    async def test_one_speaker_needs_no_name(self, serving: Any) -> None:
        async with serving("yes") as stage:
            await stage.client().chat.completions.create(model="any", messages=[{**USER, "name": "user"}])
        assert stage.recorder.notices == []
