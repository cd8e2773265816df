from __future__ import annotations

import sqlite3

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from astuner_logview.errors import BadRequest
from astuner_logview.filters.completion import describe_filter
from astuner_logview.filters.keys import KEYS
from astuner_logview.filters.language import MOST_STARS, parse_filter
from astuner_logview.filters.sql import build_condition
from astuner_logview.index.schema import make_tables

NUMBERS = st.sampled_from(["1", "-0.5", "1..3", "..2", "2..", "none", "1e3", "x", "", "9" * 400, "1e999", "nan"])
TEXTS = st.text(st.characters(exclude_categories=[]), max_size=12) | st.sampled_from(
    ["any", "failed", "yes", "a*b", '"a b"', '"']
)
TERMS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "-"]),
    st.sampled_from([*KEYS, "component:format", "foo"]),
    st.sampled_from([":", "<", ">", "<=", ">=", "=", ""]),
    NUMBERS | TEXTS,
)


@pytest.fixture(scope="module")
def empty() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    make_tables(connection)
    return connection


@given(text=st.lists(TERMS | TEXTS, max_size=4).map(" ".join))
@example("reward:" + "9" * 400)
@example('component:"a b"<1 -component:x')
@example("\x00 a\x00b")
@example('a"b')
@example("-")
@example("a\ud800 task:\udfff")
def test_any_text_is_a_filter_or_names_the_place_of_a_mistake(empty: sqlite3.Connection, text: str) -> None:
    try:
        condition, values = build_condition(parse_filter(text))
    except BadRequest as error:
        named = error.at is not None and 0 <= error.at <= len(text) and bool(error.message and error.remedy)
        assert named, (error.message, error.at)  # noqa: PT017 - most texts are filters
    else:
        assert empty.execute(f"SELECT count(*) FROM episodes WHERE {condition}", values).fetchone() == (0,)


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("task:a rewrad<1", 7, "there is no key 'rewrad'"),
        ("-foo:1", 1, "there is no key 'foo'"),
        ("reward<", 7, "reward: its value is missing"),
        ("step:1 reward:high", 14, "reward: 'high' is not a number"),
        ("task<3", 4, "task is not a number"),
        ("success:maybe", 8, "success: 'maybe' is not known"),
        ('task:"a b', 5, "a quotation mark is not closed"),
        ("component:", 10, "component: its name is missing"),
        ("component:x<y", 12, "x: 'y' is not a number"),
        ("hello ...", 6, "'...' has no letter"),
        ("task:*a*b*c*d*", 5, "a value has at most 4 stars"),
        ("x" * 3000, 2000, "more than 2000 characters"),
        ("a " * 60, 100, "more than 50 terms"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, at: int, message: str) -> None:
    with pytest.raises(BadRequest) as raised:
        parse_filter(text)
    assert (raised.value.at, message in raised.value.message) == (at, True), raised.value.message


def test_a_similar_key_is_suggested() -> None:
    with pytest.raises(BadRequest) as raised:
        parse_filter("rewrad<1")
    assert "did you mean 'reward'?" in raised.value.remedy


def test_terms_are_described_with_their_places() -> None:
    found = describe_filter('-reward<0.5 component:"a b"<=1 hel* "two words"')
    assert [(one["key"], one["op"], one["value"], one["at"]) for one in found["terms"]] == [
        ("reward", "<", "0.5", 0),
        ("component", "<=", "1", 12),
    ]
    assert found["words"] == ["hel", "two words"]


@pytest.mark.parametrize("name", list(KEYS))
def test_each_example_of_a_key_is_a_filter(name: str) -> None:
    for text in KEYS[name].examples:
        (term,) = parse_filter(text).terms
        assert term.key == name


def test_many_stars_are_refused() -> None:
    assert parse_filter("task:" + "a*" * MOST_STARS).terms
