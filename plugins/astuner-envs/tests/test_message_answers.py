"""The answer in a model's message."""

from __future__ import annotations

import pytest

from astuner_envs.message_answers import extract_answer


@pytest.mark.parametrize(
    ("text", "answer"), [(r"<think>\boxed{1}</think>2", "2"), (r"<think>\boxed{1}, or", ""), (r"so \boxed{1}", "1")]
)
def test_nothing_is_read_from_reasoning(text: str, answer: str) -> None:
    assert extract_answer({"role": "assistant", "content": text}) == answer
