"""Messages through the chat templates that models really have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_renderers import build_tokenizer
from official_templates import official_renderer

from astuner.contract.errors import AstunerError
from astuner.model.gateway.recording.messages import encode_meaning, normalise
from astuner.model.rendering import TemplateRenderer, load_renderer
from astuner.model.rendering.errors import ApiError
from astuner_devkit.tokenizer import tiny_tokenizer

CALL = {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}
LOOP = normalise(
    [
        {"role": "user", "content": "sum?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL, {**CALL, "id": "2"}]},
        {"role": "tool", "tool_call_id": "1", "content": "seven"},
        {"role": "tool", "tool_call_id": "2", "content": "eight"},
    ]
)


def render(renderer: Any, messages: Any, tools: Any = (), generate: bool = True) -> str:
    return renderer.render(messages, tools, generate=generate, kwargs={})


def test_a_template_with_tools_gets_the_calls_as_they_are(make_renderer: Any) -> None:
    text = render(make_renderer("chatml"), LOOP)
    assert text.count('{"name": "add", "arguments": {"a": 1}}') == 2
    assert "<tool_response>\nseven\n</tool_response>" in text


def test_a_template_without_tool_calls_still_shows_them(make_renderer: Any) -> None:
    text = render(make_renderer("plain"), LOOP)
    assert text.count('<tool_call>\n{"name": "add", "arguments": {"a":1}}\n</tool_call>') == 2
    assert "<|im_start|>tool\nseven<|im_end|>" in text


def test_a_template_without_a_tool_role_gets_results_in_one_user_message(make_renderer: Any) -> None:
    text = render(make_renderer("alternating"), LOOP)
    assert "[INST] <tool_response>\nseven\n</tool_response>\n<tool_response>\neight\n</tool_response> [/INST]" in text


def test_a_system_message_that_the_template_drops_goes_before_the_first_question(make_renderer: Any) -> None:
    messages = normalise([{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}])
    assert render(make_renderer("deaf"), messages).startswith("<|im_start|>user\nbe brief\n\nhello<|im_end|>")


def test_a_message_that_the_template_drops_is_refused() -> None:
    messages = normalise([{"role": "user", "content": "hello"}, {"role": "system", "content": "be brief"}])
    with pytest.raises(ApiError, match=r"drops messages\[1\] \(role system\)") as caught:
        render(TemplateRenderer(tokenizer_with("deaf"), late_system_messages="template"), messages)
    assert caught.value.status == 400


def test_a_later_system_message_that_the_template_drops_becomes_a_users(make_renderer: Any) -> None:
    messages = normalise([{"role": "user", "content": "hello"}, {"role": "system", "content": "be brief"}])
    assert "<|im_start|>user\nhello<|im_end|>\n<|im_start|>user\nbe brief<|im_end|>" in render(make_renderer("deaf"), messages)


def test_one_without_text_is_left_out(make_renderer: Any) -> None:
    messages = normalise([{"role": "user", "content": "hello"}, {"role": "system", "content": " "}])
    assert render(make_renderer("deaf"), messages).count("<|im_start|>user") == 1


def test_a_description_of_tools_that_the_template_drops_is_refused() -> None:
    tool = {"type": "function", "function": {"name": "add", "description": "d", "parameters": {}}}
    tokenizer = tokenizer_with("deaf")
    last_system = (
        "{% for message in messages if message.role == 'system' %}{% if loop.last %}{{ message.content }}{% endif %}{% endfor %}"
    )
    tokenizer.chat_template = last_system + tokenizer.chat_template
    messages = normalise([*[{"role": "system", "content": ""}] * 2, {"role": "user", "content": "hello"}])
    with pytest.raises(ApiError, match="drops the system message that describes the tools"):
        TemplateRenderer(tokenizer, late_system_messages="template").render(messages, [tool], generate=True, kwargs={})
    assert "add" in TemplateRenderer(tokenizer).render(messages, [tool], generate=True, kwargs={})


def test_users_in_a_row_become_one_where_roles_alternate(make_renderer: Any) -> None:
    messages = normalise([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])
    assert render(make_renderer("alternating"), messages).startswith("[INST] a\n\nb [/INST]")


def test_what_the_template_refuses_is_told_in_its_words(make_renderer: Any) -> None:
    messages = normalise([{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}])
    with pytest.raises(ApiError, match="roles must alternate") as caught:
        render(make_renderer("alternating"), messages)
    assert caught.value.status == 400


def test_a_tokenizer_without_a_template_is_refused(renderer: Any) -> None:
    class Bare:
        chat_template = None
        name_or_path = "base-model"

    with pytest.raises(AstunerError, match="'base-model' has no chat template"):
        TemplateRenderer(Bare())


def test_a_saved_model_brings_its_ends_of_turn(renderer: Any, tmp_path: Path) -> None:
    renderer.tokenizer.save_pretrained(tmp_path)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [2, 70]}')
    loaded = load_renderer(str(tmp_path))
    assert dict(loaded.turn_ends) == {0: "<|endoftext|>", 2: "<|im_end|>", 70: renderer.decode((70,))}


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(AstunerError, match=r"model.path: .*nowhere cannot be loaded"):
        load_renderer(str(tmp_path / "nowhere"))


def test_encoding_adds_nothing(renderer: Any) -> None:
    text = render(renderer, normalise([{"role": "user", "content": "é 中文 🙂"}]))
    assert renderer.decode(renderer.encode(text).tolist()) == text


@pytest.mark.parametrize(
    "back",
    [
        {"role": "assistant", "content": "hi", "refusal": None, "audio": None, "function_call": None, "annotations": []},
        {"role": "assistant", "content": [{"type": "text", "text": "hi"}], "name": "friday"},
        {"role": "assistant", "content": "hi", "tool_calls": None},
        {"role": "assistant", "content": "hi", "tool_calls": []},
    ],
)
def test_the_same_answer_in_other_clothes_means_the_same(back: Any) -> None:
    assert encode_meaning(normalise([back])[0]) == encode_meaning({"role": "assistant", "content": "hi"})


def test_arguments_mean_what_they_hold() -> None:
    other = {**CALL, "id": "zz", "function": {"name": "add", "arguments": ' { "a" : 1 } '}}
    said = [normalise([{"role": "assistant", "content": None, "tool_calls": [call]}])[0] for call in (CALL, other)]
    assert encode_meaning(said[0]) == encode_meaning(said[1])


@pytest.mark.parametrize(
    "other",
    [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "hi "},
        {"role": "assistant", "content": "hi", "reasoning_content": "hm"},
        {"role": "assistant", "content": "hi", "tool_calls": [CALL]},
    ],
)
def test_other_roles_texts_reasonings_and_calls_mean_something_else(other: Any) -> None:
    assert encode_meaning(normalise([other])[0]) != encode_meaning({"role": "assistant", "content": "hi"})


def tokenizer_with(template: str, *specials: str) -> Any:
    tokenizer = tiny_tokenizer((Path(__file__).parent / "templates" / f"{template}.jinja").read_text(encoding="utf-8"))
    tokenizer.add_special_tokens({"additional_special_tokens": list(specials)})
    return tokenizer


def test_a_message_of_gpt_oss_does_not_end_its_turn() -> None:
    renderer = official_renderer("gptoss")
    assert "<|end|>" in renderer.closers.values()
    assert {"<|return|>", "<|call|>"} < set(renderer.turn_ends.values())
    assert "<|end|>" not in renderer.turn_ends.values()


def test_a_template_that_shows_one_call_refuses_two() -> None:
    renderer = official_renderer("gptoss")
    with pytest.raises(ApiError, match=r"messages\[1\] holds more than one tool call") as caught:
        render(renderer, LOOP)
    assert caught.value.status == 400


def test_a_template_that_shows_one_call_reads_one() -> None:
    renderer = official_renderer("llama3_1")
    parser = renderer.parser("", tools=[{"type": "function", "function": {"name": "add"}}], parallel=True)
    calls = '{"name": "add", "parameters": {}}; {"name": "add", "parameters": {}}'
    assert len([*parser.feed(calls), *parser.finish()]) == 1
    assert parser.dropped == 1


def test_a_template_that_shows_ids_gets_ids_that_hold_the_name() -> None:
    text = render(TemplateRenderer(tokenizer_with("kimi")), LOOP)
    assert "<|tool_call_begin|>functions.add:0<" in text
    assert "## Return of functions.add:0\nseven" in text
    assert "## Return of functions.add:1\neight" in text


def test_ids_that_hold_the_name_follow_their_calls_through_a_conversation() -> None:
    again = [{**CALL, "id": "1"}]
    turns = [
        *LOOP,
        {"role": "assistant", "content": "", "tool_calls": again},
        {"role": "tool", "tool_call_id": "1", "content": "nine"},
    ]
    assert "## Return of functions.add:2\nnine" in render(TemplateRenderer(tokenizer_with("kimi")), normalise(turns))


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("qwen2_5", "hermes"),
        ("qwen3", "hermes"),
        ("qwen3_5_think", "qwen_xml"),
        ("nemotron_3_nano", "qwen_xml"),
        ("llama3_1", "llama3"),
        ("glm4moe", "glm"),
        ("gptoss", "harmony"),
        ("deepseekv3", "deepseek"),
        ("deepseek_r1_distill", "deepseek"),
        ("phi3", "hermes"),
    ],
)
def test_calls_are_read_as_the_official_template_shows_them(template: str, expected: str) -> None:
    assert official_renderer(template).tool_call_format == expected


@pytest.mark.parametrize("template", ["mistral", "kimi"])
def test_calls_are_read_as_the_template_shows_them(template: str) -> None:
    assert TemplateRenderer(tokenizer_with(template)).tool_call_format == template


@pytest.mark.parametrize(
    ("token", "style"),
    [
        ("<｜tool▁calls▁begin｜>", "deepseek"),
        ("<|tool_calls_section_begin|>", "kimi"),
        ("<|tool_call_start|>", "lfm2"),
        ("<|tool_call|>", "granite"),
    ],
)
def test_a_template_without_tool_calls_shows_those_of_the_family_whose_tokens_it_has(token: str, style: str) -> None:
    tokenizer = build_tokenizer("plain")
    tokenizer.add_special_tokens({"additional_special_tokens": [token]})
    renderer = TemplateRenderer(tokenizer)
    text = render(renderer, LOOP[:2], generate=False)
    assert renderer.tool_call_format == style
    assert text.count(token) == 2
    parser = renderer.parser("", tools=[{"type": "function", "function": {"name": "add"}}], parallel=True)
    answer = text[text.index(token) :].rpartition("<|im_end|>")[0]
    pieces = [piece for piece in [*parser.feed(answer), *parser.finish()] if piece.text.strip()]
    assert [(piece.kind, piece.name, piece.text) for piece in pieces] == [("tool_call", "add", '{"a":1}')] * 2


def test_a_configured_format_wins() -> None:
    assert official_renderer("qwen2_5", tool_call_format="qwen_xml").tool_call_format == "qwen_xml"


def save(tokenizer: Any, folder: Path) -> str:
    tokenizer.chat_template = None
    tokenizer.save_pretrained(folder)
    return str(folder)


def test_a_model_without_a_template_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AstunerError, match="has no chat template"):
        load_renderer(save(tiny_tokenizer(), tmp_path / "my-model"))


def test_an_end_that_the_tokenizer_does_not_have_closes_no_answer() -> None:
    renderer = TemplateRenderer(tiny_tokenizer(), (999_999,))
    assert 999_999 in renderer.turn_ends
    assert "" not in renderer.closers.values()


def test_a_template_of_the_configuration_replaces_the_tokenizers_and_is_saved_with_it(tmp_path: Path) -> None:
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    mine = "{% for message in messages %}<|im_start|>{{ message.role }}: {{ message.content }}<|im_end|>{% endfor %}"
    renderer = load_renderer(str(tmp_path / "model"), chat_template=mine)
    assert render(renderer, [{"role": "user", "content": "hi"}], generate=False) == "<|im_start|>user: hi<|im_end|>"
    renderer.tokenizer.save_pretrained(tmp_path / "saved")
    again = load_renderer(str(tmp_path / "saved"))
    assert render(again, [{"role": "user", "content": "hi"}], generate=False) == "<|im_start|>user: hi<|im_end|>"
    with pytest.raises(AstunerError, match=r"^model\.chat_template: the chat template .* cannot render"):
        load_renderer(str(tmp_path / "model"), chat_template="{{ raise_exception('no') }}")
