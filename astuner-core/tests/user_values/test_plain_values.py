from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import hostile_values as hostile
import numpy as np
import pytest

from astuner.contract.plain_values import (
    LARGEST_REWARD,
    make_plain,
    mend_text,
    mend_texts,
    read_bool,
    read_number,
    read_text,
    show_value,
)


def name_type(value: Any) -> str:
    """Name a value in the id of a test; some have no text."""
    return type(value).__name__


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.bool_(True), True),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (np.array(1.5), 1.5),
        (np.array([[1, 2]]), [[1, 2]]),
        (np.str_("a"), "a"),
        (np.datetime64("2026-01-01"), "2026-01-01"),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), "2026-01-02T03:00:00+00:00"),
        (timedelta(hours=1), "1:00:00"),
        (Decimal("1.10"), "1.10"),
        (Fraction(1, 3), "1/3"),
        (Path("a/b"), "a/b"),
        (hostile.Word.YES, "yes"),
        (hostile.Level.HIGH, 3),
        ({3, 1, 2}, [1, 2, 3]),
        ((1, (2,)), [1, [2]]),
        (range(2), [0, 1]),
        (hostile.Point(np.float32(1)), {"x": 1.0, "y": 2}),
        (hostile.Box({"a"}), {"content": ["a"]}),
        (hostile.Model(), {"name": "m", "content": None}),
        ({1: 1, False: 2, None: 3, 0.5: 4, hostile.Level.HIGH: 5}, {"1": 1, "false": 2, "null": 3, "0.5": 4, "3": 5}),
    ],
    ids=name_type,
)
def test_what_stands_for_a_json_value_becomes_it(value: Any, plain: Any) -> None:
    found = make_plain(value)
    assert (found.value, found.mended, found.replaced) == (plain, False, None)
    assert type(found.value) is type(plain)


def test_a_tensor_of_one_number_is_a_number() -> None:
    torch = pytest.importorskip("torch")
    assert make_plain({"loss": torch.tensor(0.5, requires_grad=True)}).value == {"loss": 0.5}
    assert read_number(torch.tensor(0.5, dtype=torch.bfloat16)) == 0.5


@pytest.mark.parametrize(
    ("value", "plain", "replaced"),
    [
        (math.nan, "nan", "nan"),
        (-math.inf, "-inf", "-inf"),
        (b"a\xff", "a\ufffd", "a bytes"),
        (1j, "1j", "a complex"),
        (ValueError("no"), "no", "a ValueError"),
        (16**4000, f"0x1{'0' * 4000}", "an int"),
        (hostile.Raises(), "<Raises>", "a Raises"),
        (hostile.Raises(SystemExit), "<Raises>", "a Raises"),
    ],
    ids=name_type,
)
def test_what_json_does_not_have_becomes_text_and_is_named(value: Any, plain: str, replaced: str) -> None:
    found = make_plain([value])
    assert (found.value, found.replaced) == ([plain], replaced)


def test_a_value_inside_of_itself_ends_there() -> None:
    circle: list[Any] = [1]
    circle.append(circle)
    assert make_plain(circle).value == [1, "<list inside itself>"]


def test_deep_values_end_at_the_limit_and_can_be_stored() -> None:
    nested: Any = "bottom"
    for _ in range(100_000):
        nested = {"a": nested}
    text = json.dumps(make_plain(nested).value)
    assert text.count("{") == 64
    assert "<dict inside 64 levels>" in text


def test_a_value_that_is_shared_is_not_one_inside_of_itself() -> None:
    shared = [1]
    assert make_plain([shared, shared]).value == [[1], [1]]


@pytest.mark.parametrize(
    ("text", "mended"),
    [("plain", "plain"), ("π 😀", "π 😀"), ("\ud83d\ude00", "😀"), ("a\ud83d", "a\ufffd"), ("\udc80b\udcff", "\ufffdb\ufffd")],
)
def test_lone_surrogates_become_the_replacement_character_and_pairs_are_joined(text: str, mended: str) -> None:
    assert mend_text(text) == mended


def test_json_values_without_surrogates_are_left_as_they_are() -> None:
    message = {"role": "user", "content": ["π"], "nested": {"pair": (1, 2)}}
    assert mend_texts(message) is message
    assert mend_texts({"\ud800": ["\udfff"]}) == {"\ufffd": ["\ufffd"]}


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (1, 1.0),
        (True, 1.0),
        (np.float32(0.5), 0.5),
        (np.bool_(False), 0.0),
        (np.array([2.0]), 2.0),
        (Fraction(1, 2), 0.5),
        (Decimal("0.5"), 0.5),
        (np.array([1.0, 2.0]), None),
        ("1", None),
        (None, None),
        (math.nan, None),
        (math.inf, None),
        (10**400, None),
        (hostile.RaisingFloat(1), None),
        (hostile.Raises(SystemExit), None),
    ],
    ids=name_type,
)
def test_numbers_are_read_from_whatever_holds_one(value: Any, number: float | None) -> None:
    assert read_number(value) == number


def test_a_number_may_have_a_largest_size() -> None:
    assert [read_number(value, largest=LARGEST_REWARD) for value in (1e12, -1e12, 1.1e12, 1e308)] == [1e12, -1e12, None, None]


def test_only_truth_values_are_read_as_such() -> None:
    assert [read_bool(value) for value in (True, np.bool_(False), 1, "yes", hostile.Raises())] == [True, False, None, None, None]


def test_every_value_has_a_text() -> None:
    assert [read_text(value) for value in ("a\ud800", 3, hostile.Raises())] == ["a\ufffd", "3", "<Raises>"]
    assert [show_value("ab", 2), show_value(hostile.Raises(SystemExit))] == ["'a", "<Raises>"]
