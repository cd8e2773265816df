"""How what users' code raised is described."""

from __future__ import annotations

import asyncio

import pytest

from astuner.episodes.containment.endings import CodeEnded, describe_raised


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("x"), "KeyError: 'x'"),
        (ValueError(), "ValueError: "),
        (SystemExit(), "SystemExit"),
        (SystemExit(3), "SystemExit: 3"),
        (CodeEnded("SystemExit: 3 (agent.py:1)"), "SystemExit: 3 (agent.py:1)"),
        (asyncio.CancelledError(), "CancelledError: what it awaits was cancelled, and not by the run"),
        (asyncio.CancelledError("enough"), "CancelledError: enough"),
        (
            asyncio.CancelledError("Cancelled via cancel scope 7f78f26e0400 by <Task pending name='Task-16'>"),
            "CancelledError: what it awaits was cancelled by a cancel scope of anyio, and not by the run",
        ),
        (
            ExceptionGroup("in a TaskGroup", [ExceptionGroup("in another", [ValueError("no answer")])]),
            "ValueError: no answer",
        ),
        (
            ExceptionGroup("errors", [ExceptionGroup("tools", [ValueError("a"), KeyError("b")]), OSError("c")]),
            "ValueError: a, and 2 more in its ExceptionGroup",
        ),
        (BaseExceptionGroup("errors", [CodeEnded("SystemExit: 3")]), "SystemExit: 3"),
    ],
)
def test_an_error_is_described_in_a_line(error: BaseException, text: str):
    assert describe_raised(error) == text


def test_the_place_of_a_group_is_that_of_its_first_error():
    def fail() -> None:
        raise ValueError("no answer")

    def fail_in_a_group() -> None:
        try:
            fail()
        except ValueError as error:
            raise ExceptionGroup("errors in a TaskGroup", [error]) from None

    with pytest.raises(ExceptionGroup) as raised:
        fail_in_a_group()
    assert describe_raised(raised.value).startswith("ValueError: no answer (")
    assert describe_raised(raised.value).endswith(" in fail)")
