"""Lines of JSON on a socket, and the end of a child."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from astuner.shared.processes.json_lines import JsonLines, end_child


@pytest.fixture
def ends() -> Iterator[tuple[JsonLines, socket.socket]]:
    ours, theirs = socket.socketpair()
    lines = JsonLines(ours)
    with theirs:
        yield lines, theirs
    lines.close()


def test_lines_that_come_in_pieces_or_together_are_read_one_by_one(ends: tuple[JsonLines, socket.socket]) -> None:
    lines, theirs = ends
    theirs.sendall(b'{"a": 1}\n{"b": ')
    assert lines.receive(60) == {"a": 1}
    theirs.sendall(b"2}\n")
    assert lines.receive(60) == {"b": 2}


def test_silence_and_the_end_of_the_child_differ(ends: tuple[JsonLines, socket.socket]) -> None:
    lines, theirs = ends
    with pytest.raises(TimeoutError):
        lines.receive(0.01)
    theirs.close()
    with pytest.raises(ConnectionResetError):
        lines.receive(60)


def test_a_child_that_does_not_read_is_not_waited_for(ends: tuple[JsonLines, socket.socket]) -> None:
    lines, _ = ends
    with pytest.raises(TimeoutError):
        lines.send({"long": "x" * 10_000_000}, 0.01)


def test_closing_wakes_who_waits(ends: tuple[JsonLines, socket.socket]) -> None:
    lines, theirs = ends
    raised: list[Exception] = []

    def wait() -> None:
        try:
            lines.receive(60)
        except OSError as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    lines.close()
    thread.join(30)
    assert len(raised) == 1
    assert theirs.recv(1) == b""


def test_a_child_that_stays_is_killed() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], process_group=0)
    end_child(process, 0.01)
    assert process.returncode == -signal.SIGKILL


def test_a_child_that_ends_in_time_is_not_killed() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], process_group=0)
    end_child(process, 60)
    assert process.returncode == 0
