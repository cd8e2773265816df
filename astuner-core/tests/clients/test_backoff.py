"""Pauses between retries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner.shared.clients.backoff import parse_retry_after, pause_before_retry, spread


def test_each_pause_is_twice_as_long_up_to_the_longest() -> None:
    assert [pause_before_retry(n, first_s=0.5, longest_s=8) for n in (0, 1, 2, 3, 4, 5, 10_000)] == [0.5, 1, 2, 4, 8, 8, 8]


def test_a_server_may_ask_for_more_but_not_for_more_than_the_longest() -> None:
    assert pause_before_retry(0, first_s=0.5, longest_s=8, asked_s=3) == 3
    assert pause_before_retry(3, first_s=0.5, longest_s=8, asked_s=3) == 4
    assert pause_before_retry(0, first_s=0.5, longest_s=8, asked_s=3600) == 8


@given(st.floats(0, 1e6))
def test_a_spread_pause_is_about_as_long(pause_s: float) -> None:
    assert 0.8 * pause_s <= spread(pause_s) <= 1.2 * pause_s


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("3", 3.0), ("0.5", 0.5), (None, 0.0), ("", 0.0), ("-1", 0.0), ("nan", 0.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0)],
)
def test_retry_after_is_read_where_it_is_a_number_of_seconds(header: str | None, seconds: float) -> None:
    assert parse_retry_after(header) == seconds
