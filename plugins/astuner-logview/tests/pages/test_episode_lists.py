from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from astuner_logview.errors import BadRequest

Ask = Callable[..., dict[str, Any]]


def names(answer: dict[str, Any]) -> list[str]:
    return [f"{one['task']}{one['repeat']}" for one in answer["episodes"]]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ["c0", "c1", "a0", "a1", "a2", "b0", "b1"]),
        ("reward<0.5", ["c1", "a1"]),
        ("reward:0.5", ["b0", "b1"]),
        ("reward:none", ["c0", "a2"]),
        ("-reward:none step:1", ["a0", "a1", "b0", "b1"]),
        ("step:2..", ["c0", "c1"]),
        ("task:a repeat>=1", ["a1", "a2"]),
        ("failed", ["c0", "a2"]),
        ("failed:timeout", ["a2"]),
        ("judge:failed", ["c0"]),
        ("failed:judge_timeout", ["c0"]),
        ("success:yes", ["a0"]),
        ("success:unknown task:b", ["b0", "b1"]),
        ("finding:nonsense", ["a1"]),
        ("finding:any", ["a1"]),
        ("-finding:any task:a", ["a0", "a2"]),
        ("lost:failed", ["a2"]),
        ("lost:no_signal", ["c1", "b0", "b1"]),
        ("lost:judge*", ["c0"]),
        ("component:format", ["a1"]),
        ("component:format<0.5", []),
        ("component:format<1", ["a1"]),
        ("advantage>0", ["a0"]),
        ("duration>2", ["a0"]),
        ("circular", ["a1"]),
        ("circ*", ["a1"]),
        ("circ", []),
        ('"proof is"', ["a1"]),
        ('"is proof"', []),
        ("-circular task:a", ["a0", "a2"]),
        ("π slow", ["a2"]),
        ("agent:AGENT task:b", ["b0", "b1"]),
        ("split:validation", []),
        ("trained:0", ["a2"]),
        ("signal>0", ["a0", "a1"]),
    ],
)
def test_a_filter_selects_episodes(ask: Ask, text: str, found: list[str]) -> None:
    answer = ask("/episodes", filter=text)
    assert (names(answer), answer["total"]) == (found, len(found))


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("sort", ["step", "reward", "tokens", "turns", "duration", "advantage", "task"])
def test_pages_of_a_list_are_the_list(ask: Ask, sort: str, order: str) -> None:
    whole = names(ask("/episodes", sort=sort, order=order))
    first = ask("/episodes", sort=sort, order=order, limit=3)
    second = ask("/episodes", sort=sort, order=order, limit=3, after=first["next"])
    third = ask("/episodes", sort=sort, order=order, limit=3, after=second["next"])
    assert [*names(first), *names(second), *names(third)] == whole
    assert (len(whole), third["next"]) == (7, None)


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_what_is_not_known_comes_last(ask: Ask, order: str) -> None:
    rewards = [one["reward"] for one in ask("/episodes", sort="reward", order=order)["episodes"]]
    assert rewards[-2:] == [None, None]
    assert rewards[:-2] == sorted(rewards[:-2], reverse=order == "desc")


def test_a_snippet_shows_what_was_found(ask: Ask) -> None:
    (row,) = ask("/episodes", filter="circ*")["episodes"]
    assert row["snippet"] == [["The proof is ", False], ["circ", True], ["ular.", False]]


@pytest.mark.parametrize("cursor", ["x", "eyJ9", "WzEsIDJd", "bnVsbA=="])
def test_a_cursor_of_elsewhere_is_refused(ask: Ask, cursor: str) -> None:
    with pytest.raises(BadRequest, match="not a place in this list"):
        ask("/episodes", after=cursor)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("lost", [["no_signal", 3], ["failed", 1], ["judge_timeout", 1]]),
        ("success", [["unknown", 4], ["no", 2], ["yes", 1]]),
        ("task", [["a", 3], ["b", 2], ["c", 2]]),
        ("failed", [["judge_timeout", 1], ["timeout", 1]]),
        ("component", [["format", 1]]),
    ],
)
def test_values_of_a_key_are_counted(ask: Ask, key: str, values: list[list[object]]) -> None:
    assert ask("/values", key=key)["values"] == values
