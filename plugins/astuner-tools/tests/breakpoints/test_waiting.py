"""Turns at the terminal, and the clock while somebody sits at it."""

from __future__ import annotations

import asyncio
import threading
import time

from attrs import define, field

from astuner.breakpoints.stopping import Terminal
from astuner_tools.breakpoints.debugger import stop_clock
from astuner_tools.breakpoints.sessions import Sessions


@define(eq=False)
class Stop:
    place: str | None = None
    thread: threading.Thread = field(factory=threading.current_thread)


class Table:
    def __init__(self) -> None:
        self.log: list[str] = []

    def pause(self) -> None:
        self.log.append("pause")

    def resume(self) -> None:
        self.log.append("resume")


def in_a_thread(terminal: Sessions, stop: Stop, order: list[str]) -> threading.Thread:
    def take() -> None:
        stop.thread = threading.current_thread()
        terminal.take(stop)
        order.append(stop.place or "")
        terminal.give_back(stop)

    thread = threading.Thread(target=take)
    thread.start()
    return thread


def test_another_thread_waits_for_its_turn() -> None:
    terminal, order, mine = Sessions(Terminal()), list[str](), Stop("mine")
    terminal.take(mine)
    other = in_a_thread(terminal, Stop("other"), order)
    other.join(0.2)
    order.append("mine")
    terminal.give_back(mine)
    other.join(10)
    assert order == ["mine", "other"]


def test_what_a_stepped_over_end_leaves_behind_holds_nobody_up() -> None:
    terminal, order = Sessions(Terminal()), list[str]()
    terminal.take(Stop("episode 1"))
    other = in_a_thread(terminal, Stop("other"), order)
    terminal.leave("episode 1")
    other.join(10)
    assert order == ["other"]


def test_neither_does_a_thread_that_has_ended() -> None:
    terminal, order, ended = Sessions(Terminal()), list[str](), Stop("gone", thread=threading.Thread())
    terminal.take(ended)
    in_a_thread(terminal, Stop("other"), order).join(10)
    assert order == ["other"]


def test_a_display_is_paused_from_the_first_debugger_to_the_last() -> None:
    table, one, two = Table(), Stop(), Stop()
    terminal = Sessions(Terminal([table]))
    assert [terminal.take(one), terminal.take(one), terminal.take(two)] == [True, False, True]
    terminal.give_back(two)
    assert table.log == ["pause"]
    terminal.give_back(one)
    assert table.log == ["pause", "resume"]


def test_no_time_limit_of_a_loop_passes_while_it_is_held() -> None:
    async def hold(seconds: float) -> str:
        async with asyncio.timeout(2):
            for _ in range(2):
                with stop_clock():
                    time.sleep(seconds)
                await asyncio.sleep(0)
        return "in time"

    assert asyncio.run(hold(2.5)) == "in time"


def test_time_passes_on_when_it_is_not() -> None:
    async def hold() -> bool:
        with stop_clock():
            time.sleep(0.05)
        before = asyncio.get_running_loop().time()
        await asyncio.sleep(0.01)
        return asyncio.get_running_loop().time() > before

    assert asyncio.run(hold())
