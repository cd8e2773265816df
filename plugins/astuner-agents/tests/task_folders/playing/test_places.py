"""Paths of a task in a sandbox that has them elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner_agents.task_folders.playing.places import Places

PLACES = Places(moved={"/app": "/s/work", "/tests": "/s/home/tests", "/app-data": "/s/home/app-data"})


@pytest.mark.parametrize(
    ("text", "translated"),
    [
        ("cat /app/a.txt", "cat /s/work/a.txt"),
        ("Write it into /app.", "Write it into /s/work."),
        ("`/app`, '/tests' and \"/tests/x\"", "`/s/work`, '/s/home/tests' and \"/s/home/tests/x\""),
        ("PATH=/app/bin:/tests", "PATH=/s/work/bin:/s/home/tests"),
        ("/app-data/x", "/s/home/app-data/x"),
        ("file=/app\n/app", "file=/s/work\n/s/work"),
    ],
)
def test_paths_of_the_task_are_translated(text: str, translated: str) -> None:
    assert PLACES.translate(text) == translated


@pytest.mark.parametrize(
    "text",
    [
        "/apps/x",
        "/app.py",
        "/application",
        "src/app/x",
        "./app",
        "../tests",
        "$HOME/app",
        "${X}/app",
        "https://a.b/app",
        "~/tests",
    ],
)
def test_other_paths_are_left_alone(text: str) -> None:
    assert PLACES.translate(text) == text


@given(st.lists(st.sampled_from(["/app", "/tests", "/app-data", "/", "a", ".", " ", "x/y"]), max_size=8).map("".join))
def test_a_translated_text_is_not_translated_again(text: str) -> None:
    once = PLACES.translate(text)
    assert PLACES.translate(once) == once


def test_without_moved_places_everything_stays() -> None:
    assert (Places().translate("/app /tests"), Places().find("/app/x")) == ("/app /tests", "/app/x")
    assert (PLACES.find("/app/x"), PLACES.find("/application")) == ("/s/work/x", "/application")
