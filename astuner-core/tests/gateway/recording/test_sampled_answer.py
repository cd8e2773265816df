"""Which of the tokens that were sampled are leaks, for the special tokens of several families of models."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest

from astuner.model.gateway.recording.sampled_answer import find_leaky_tokens

QWEN = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|fim_prefix|>", "<tool_call>", "</tool_call>", "<think>", "</think>"]
LLAMA = ["<|begin_of_text|>", "<|start_header_id|>", "<|eot_id|>", "<|python_tag|>"]
MISTRAL = ["<s>", "</s>", "[INST]", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[TOOL_RESULTS]", "[THINK]", "[/THINK]"]
DEEPSEEK = ["<｜begin▁of▁sentence｜>", "<｜User｜>", "<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁output▁begin｜>"]
GLM = ["<|user|>", "<|observation|>", "<tool_call>", "<arg_key>", "</arg_value>", "<think>"]
GPT_OSS = ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|call|>", "<|return|>", "<|endofprompt|>"]


def leaks(specials: Sequence[str], ordinary: Sequence[str] = ()) -> list[str]:
    added = {number: AddedToken(token, True) for number, token in enumerate(specials)}
    added |= {len(specials) + number: AddedToken(token, False) for number, token in enumerate(ordinary)}
    return list(find_leaky_tokens(SimpleNamespace(tokenizer=SimpleNamespace(added_tokens_decoder=added))).values())  # type: ignore[arg-type]


class AddedToken(str):
    """As the tokenizers library has it: a text that knows whether it is special."""

    special: bool

    def __new__(cls, text: str, special: bool) -> AddedToken:
        made = super().__new__(cls, text)
        made.special = special
        return made


@pytest.mark.parametrize(
    ("specials", "expected"),
    [
        (QWEN, ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|fim_prefix|>"]),
        (LLAMA, ["<|begin_of_text|>", "<|start_header_id|>", "<|eot_id|>"]),
        (MISTRAL, ["<s>", "</s>", "[INST]", "[TOOL_RESULTS]"]),
        (DEEPSEEK, ["<｜begin▁of▁sentence｜>", "<｜User｜>", "<｜tool▁output▁begin｜>"]),
        (GLM, ["<|user|>", "<|observation|>"]),
        (GPT_OSS, ["<|endofprompt|>"]),
    ],
)
def test_what_tool_calls_and_reasoning_are_written_with_is_no_leak(specials, expected):
    assert leaks(specials) == expected


def test_an_added_token_that_is_not_special_is_no_leak():
    assert leaks(["<|im_start|>"], ["<custom>"]) == ["<|im_start|>"]


def test_a_renderer_without_a_tokenizer_knows_no_special_tokens():
    assert find_leaky_tokens(object()) == {}  # type: ignore[arg-type]
