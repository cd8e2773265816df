"""What users' code, or a library under it, prints again and again to a log."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout

import pytest

from astuner.episodes.containment.process_streams import MOST_REPEATS, count_repeats
from astuner.episodes.containment.user_code import UserCode


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("redirect", [redirect_stdout, redirect_stderr])
def test_a_repeated_text_is_shown_a_few_times_and_then_counted(redirect):
    shown, said = io.StringIO(), []

    def speak() -> None:
        for number in range(9):
            print("decoding failed", file=sys.stdout if redirect is redirect_stdout else sys.stderr)
            print(f"episode {number}", file=sys.stdout if redirect is redirect_stdout else sys.stderr)

    with redirect(shown), count_repeats(said.append):
        UserCode("the workflow").make_context().run(speak)
    lines = shown.getvalue().splitlines()
    assert lines.count("decoding failed") == MOST_REPEATS
    assert [line for line in lines if line.startswith("episode")] == [f"episode {number}" for number in range(9)]
    assert said == [f"the agent's code printed this 9 times, of which {MOST_REPEATS} are shown: decoding failed"]


def test_what_the_run_itself_writes_is_never_left_out():
    shown, said = io.StringIO(), []
    with redirect_stdout(shown), count_repeats(said.append):
        for _ in range(9):
            print("step")
    assert (shown.getvalue(), said) == ("step\n" * 9, [])


def test_a_terminal_shows_everything():
    shown, said = Terminal(), []
    with redirect_stdout(shown), redirect_stderr(shown), count_repeats(said.append):
        UserCode("the workflow").make_context().run(lambda: [print("again") for _ in range(9)])
    assert (shown.getvalue(), said) == ("again\n" * 9, [])
