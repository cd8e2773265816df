from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from astuner_local.tiny.tokenizer import TOOL_MARKS, train_tokenizer

TOKENIZER = train_tokenizer(["The answer is"])
CALL = '<tool_call>\n{"name": "calculator", "arguments": {"expression": "57*83"}}\n</tool_call>'


@given(st.text())
def test_any_text_survives_a_round_trip(text: str) -> None:
    assert text == TOKENIZER.decode(TOKENIZER.encode(text))


def test_each_digit_is_a_token(tokenizer: Any) -> None:
    assert tokenizer.convert_ids_to_tokens(tokenizer.encode("5783")) == ["5", "7", "8", "3"]


def test_each_mark_is_one_token(tokenizer: Any) -> None:
    assert [len(tokenizer.encode(mark)) for mark in TOOL_MARKS] == [1, 1, 1, 1]


def test_marks_of_tool_calls_stay_when_special_tokens_are_left_out(tokenizer: Any) -> None:
    assert tokenizer.decode(tokenizer.encode(CALL + "<|im_end|>"), skip_special_tokens=True) == CALL


def test_turns_can_be_encoded_one_by_one(tokenizer: Any) -> None:
    parts = ["<|im_start|>user\n", "What is 57?", "<|im_end|>\n<|im_start|>assistant\n", CALL, "<|im_end|>\n<|im_start|>user\n"]
    whole = tokenizer.encode("".join(parts))
    assert whole == [token for part in parts for token in tokenizer.encode(part)]
    assert all(tokenizer.encode(a + b) == tokenizer.encode(a) + tokenizer.encode(b) for a, b in pairwise(parts))


def test_training_twice_gives_the_same_vocabulary() -> None:
    corpus = ["What is 57 * 83?", "The answer is \\boxed{4731}"]
    assert train_tokenizer(corpus).get_vocab() == train_tokenizer(corpus).get_vocab()
