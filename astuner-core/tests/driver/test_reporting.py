"""Loggers that fail."""

from __future__ import annotations

from typing import Any

import pytest

from astuner.contract.protocols import LoggerTraits
from astuner.runs.driver.reporting import Loggers, NamedLogger


class Fails:
    """Raises in whatever is called."""

    traits = LoggerTraits(shows_progress=True, shows_notices=True, links_steps=True, names_viewer=True)

    def __init__(self) -> None:
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        def fail(*arguments: Any) -> None:
            self.calls += 1
            raise ValueError("tracker is down")

        return fail


class Shows:
    traits = LoggerTraits(shows_notices=True)

    def __init__(self) -> None:
        self.shown: list[str] = []

    def notice(self, text: str, level: str) -> None:
        self.shown.append(text)


@pytest.mark.parametrize(
    "call",
    [("notice", "hello", "info"), ("log", 1, {}), ("progress", "rollout", 1, 2), ("list_viewer_commands",), ("link_steps", "u")],
)
def test_a_logger_that_raises_is_named_and_left_out_whatever_was_called(call: tuple[Any, ...]) -> None:
    said: list[str] = []
    broken: Any = Fails()
    loggers = Loggers([NamedLogger("broken", broken)], said.append)
    name, *arguments = call
    for _ in range(2):
        getattr(loggers, name)(*arguments)
    assert said == ["logger 'broken' failed and is left out: ValueError: tracker is down"]
    assert broken.calls == 1


def test_the_loggers_that_another_program_shows_name_its_command() -> None:
    class Charts:
        traits = LoggerTraits(names_viewer=True)

        def format_viewer_command(self) -> str:
            return "charts --of run"

    charts: Any = Charts()
    shows: Any = Shows()
    loggers = Loggers([NamedLogger("shows", shows), NamedLogger("charts", charts)], lambda text: None)
    assert loggers.list_viewer_commands() == ["charts --of run"]


def test_a_notice_reaches_the_other_loggers_when_one_fails() -> None:
    broken, shows = Fails(), Shows()
    loggers = Loggers([NamedLogger("broken", broken), NamedLogger("shows", shows)], lambda text: None)  # type: ignore[arg-type]
    assert loggers.notice("hello", "info")
    assert shows.shown == ["hello"]
