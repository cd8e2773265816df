"""Messages through the chat templates that models really have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from astuner.errors import AstunerError
from astuner.gateway import TemplateRenderer, load_renderer
from astuner.gateway.errors import ApiError
from astuner.gateway.messages import meaning, normalise

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
    assert text.count('<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>') == 2
    assert "<|im_start|>tool\nseven<|im_end|>" in text


def test_a_template_without_a_tool_role_gets_results_in_one_user_message(make_renderer: Any) -> None:
    text = render(make_renderer("alternating"), LOOP)
    assert "[INST] <tool_response>\nseven\n</tool_response>\n<tool_response>\neight\n</tool_response> [/INST]" in text


def test_a_message_that_the_template_drops_is_refused(make_renderer: Any) -> None:
    messages = normalise([{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}])
    with pytest.raises(ApiError, match=r"drops messages\[0\] \(role system\)") as caught:
        render(make_renderer("deaf"), messages)
    assert caught.value.status == 400


def test_what_the_template_refuses_is_told_in_its_words(make_renderer: Any) -> None:
    messages = normalise([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])
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
    with pytest.raises(AstunerError, match=r"model.path: no tokenizer could be loaded from '.*nowhere'"):
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
    assert meaning(normalise([back])[0]) == meaning({"role": "assistant", "content": "hi"})


def test_arguments_mean_what_they_hold() -> None:
    other = {**CALL, "id": "zz", "function": {"name": "add", "arguments": ' { "a" : 1 } '}}
    said = [normalise([{"role": "assistant", "content": None, "tool_calls": [call]}])[0] for call in (CALL, other)]
    assert meaning(said[0]) == meaning(said[1])


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
    assert meaning(normalise([other])[0]) != meaning({"role": "assistant", "content": "hi"})
