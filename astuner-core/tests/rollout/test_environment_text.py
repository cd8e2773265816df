from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings

from astuner.episodes.rollout.environment_text import clip_environment_message


def words(text: str) -> int:
    return len(text.split())


def test_a_short_message_comes_back_as_it_is() -> None:
    message = {"role": "tool", "content": "a b c", "tool_call_id": "1"}
    assert clip_environment_message(message, 3, words) is message


def test_a_long_message_keeps_its_start_and_says_what_is_left_out() -> None:
    message = {"role": "tool", "content": " ".join("abcdefghijklmnop"), "tool_call_id": "1"}
    clipped = clip_environment_message(message, 12, words)
    assert clipped == {
        "role": "tool",
        "content": "a b c \n[cut here: 25 of 31 characters are left out]",
        "tool_call_id": "1",
    }


def test_a_limit_below_the_mark_leaves_the_mark_alone() -> None:
    assert clip_environment_message({"role": "user", "content": "a b c"}, 1, words)["content"] == (
        "\n[cut here: 5 of 5 characters are left out]"
    )


def test_parts_are_cut_as_one_text() -> None:
    parts = [{"type": "text", "text": "a " * 40}, {"type": "text", "text": "b"}]
    assert clip_environment_message({"role": "user", "content": parts}, 12, words)["content"].startswith("a a a \n[cut here")


def test_what_is_no_text_is_left_to_the_gateway() -> None:
    for content in (None, [{"type": "image_url", "image_url": {"url": "x"}}]):
        message = {"role": "user", "content": content}
        assert clip_environment_message(message, 1, words) is message


def test_of_a_huge_message_only_the_start_is_counted() -> None:
    longest = 0

    def counted(text: str) -> int:
        nonlocal longest
        longest = max(longest, len(text))
        return words(text)

    clip_environment_message({"role": "user", "content": "word " * 1_000_000}, 50, counted)
    assert longest < 1000


@settings(max_examples=100)
@given(text=st.text(alphabet="ab \n", max_size=400), limit=st.integers(12, 60))
def test_the_limit_holds_with_the_mark(text: str, limit: int) -> None:
    content = clip_environment_message({"role": "user", "content": text}, limit, words)["content"]
    assert words(content) <= limit
    assert text.startswith(content.split("\n[cut here")[0])
