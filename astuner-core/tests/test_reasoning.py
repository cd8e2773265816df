"""Where the reasoning at the start of an answer ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner.model.reasoning import split_thought


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("<think>\na\n</think>\n\nb", "a", "b"),
        (" <think>a</think>b</think>c", "a", "b</think>c"),
        ("<think>a", "a", ""),
        ("<think>", "", ""),
        ("<think></think>b", "", "b"),
        ("a\n</think>\n\nb", "a", "b"),
        ("[THINK]a[/THINK]b", "a", "b"),
        ("write <think>a</think>b", "", "write <think>a</think>b"),
        ("write <think>", "", "write <think>"),
        (" b\n", "", " b\n"),
    ],
)
def test_the_answer_is_what_follows_the_reasoning(text: str, thought: str, answer: str) -> None:
    assert split_thought(text) == (thought, answer)


@given(st.text(), st.text())
def test_whatever_follows_a_thought_is_the_answer(thought: str, answer: str) -> None:
    assert split_thought(f"<think>{thought.replace('<', '')}</think>{answer}")[1] == answer.lstrip()
