"""Ids to text while they come."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from astuner.model.rendering.decoding import StopFinder, TextStream


def streamed(renderer: Any, ids: list[int], size: int) -> list[str]:
    stream = TextStream(renderer.decode)
    return [stream.feed(ids[start : start + size]) for start in range(0, len(ids), size)] + [stream.finish()]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(alphabet="aé中🙂 <\n"), st.integers(1, 30))
def test_parts_add_up_and_no_character_is_halved(renderer: Any, text: str, size: int) -> None:
    parts = streamed(renderer, renderer.encode(text).tolist(), size)
    assert "".join(parts) == text
    assert not any("\ufffd" in part for part in parts)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 300), max_size=60), st.integers(1, 20))
def test_broken_characters_come_out_in_the_end(renderer: Any, ids: list[int], size: int) -> None:
    assert "".join(streamed(renderer, ids, size)) == renderer.decode(ids)


def test_an_emoji_comes_at_once(renderer: Any) -> None:
    ids = renderer.encode("🙂").tolist()
    assert len(ids) == 4
    assert streamed(renderer, ids, 1) == ["", "", "", "🙂", ""]


@pytest.mark.parametrize(
    ("parts", "passed", "found"),
    [
        (["hello"], ["hello", ""], False),
        (["a S", "TOP b"], ["a ", ""], True),
        (["a S", "o"], ["a ", "So"], False),
        (["a ST"], ["a ", "ST"], False),
        (["xSTOPyEND"], ["x"], True),
        (["xENDySTOP"], ["x"], True),
    ],
)
def test_nothing_of_a_stop_string_passes(parts: list[str], passed: list[str], found: bool) -> None:
    finder = StopFinder(["STOP", "END"])
    said = [finder.feed(part) for part in parts] + [finder.finish()]
    assert [text for text in said if text] == [text for text in passed if text]
    assert finder.found is found
    assert finder.passed == len("".join(passed))
