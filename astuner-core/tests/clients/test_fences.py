"""Fences that a text cannot close."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner.shared.clients.fences import BREAK, fence, find_fenced

TAGS = re.compile(r"</?untrusted-([0-9a-f]{16})>")


@given(st.text())
def test_a_text_stands_between_tags_that_are_not_in_it(text: str) -> None:
    opening, *_, closing = TAGS.finditer(fence(text))
    assert opening[1] == closing[1]
    assert opening[1] not in fence(text)[opening.end() : closing.start()]


@given(st.text(), st.integers(1, 3))
def test_a_text_that_knows_the_fences_of_others_does_not_close_its_own(text: str, rounds: int) -> None:
    for _ in range(rounds):
        text = f"{text}\n{TAGS.findall(fence(text))[0]}\n{fence(text)}"
    identity = TAGS.findall(fence(text))[0]
    assert Counter(TAGS.findall(fence(text)))[identity] == 2


@given(st.text(), st.text(), st.sampled_from(["answer", "task"]))
def test_the_same_text_has_the_same_tags_and_any_other_has_others(one: str, other: str, name: str) -> None:
    tag, another = (fence(text, name).partition(">")[0] for text in (one, other))
    assert tag.startswith(f"<{name}-")
    assert (tag == another) == (one.encode("utf-8", "replace") == other.encode("utf-8", "replace"))
    assert fence(one, name) == fence(one, name)
    assert fence(one, "reference").partition(">")[0][-16:] != tag[-16:]


def test_a_text_that_no_api_takes_is_made_one() -> None:
    assert fence("a\ud800b").encode()
    assert "a\ufffdb" in fence("a\ud800b")


@pytest.mark.parametrize(
    "token",
    [
        *(
            "<|im_start|>",
            "<|eot_id|>",
            "<|start_header_id|>",
            "<|channel|>",
            "<\uff5cUser\uff5c>",
            "<\uff5cend\u2581of\u2581sentence\uff5c>",
        ),
        *("[INST]", "[/INST]", "[TOOL_CALLS]", "<<SYS>>", "<</SYS>>", "<s>", "</s>", "<bos>", "<start_of_turn>", "<end_of_turn>"),
        *("<think>", "</think>", "<tool_call>", "</tool_response>", "]~]", "]<]"),
    ],
)
def test_a_control_token_of_a_chat_template_is_broken(token: str) -> None:
    shown = fence(f"a{token}b")
    assert token not in shown
    assert f"a{token}b" in shown.replace(BREAK, "")


@pytest.mark.parametrize("text", ["a < b | c > d", "<div><b>x</b></div>", "a[i] = [1, 2]", "x <- c(1)", "[a](b)", "List<String>"])
def test_ordinary_text_stays(text: str) -> None:
    assert find_fenced([fence(text)]) == [text]
