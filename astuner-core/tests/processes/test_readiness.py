"""The signs that a program is up."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable

import pytest

from astuner.contract.errors import AstunerError
from astuner.settings.config.model import Ready
from astuner.shared.processes import ProgramHandle, free_port, readiness, wait_until_ready

Start = Callable[..., ProgramHandle]
LISTENS = "import socket, time; s = socket.create_server(('127.0.0.1', {port})); print('up', flush=True); time.sleep(60)"
ANSWERS = """
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response({status})
        self.end_headers()
HTTPServer(('127.0.0.1', {port}), Handler).serve_forever()
"""


def ready(launched: ProgramHandle, signs: Ready, timeout_s: float = 20) -> list[str]:
    said: list[str] = []
    asyncio.run(wait_until_ready(launched, signs, timeout_s, said.append))
    return said


def test_a_port_is_waited_for(start: Start) -> None:
    port = free_port()
    ready(start(python=LISTENS.format(port=port)), Ready(port=port))
    assert readiness.accepts(port)


def test_a_url_is_waited_for(start: Start) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/health"
    ready(start(python=ANSWERS.format(port=port, status=204)), Ready(url=url))


def test_a_url_that_answers_an_error_is_not_ready(start: Start) -> None:
    port = free_port()
    launched = start(python=ANSWERS.format(port=port, status=503))
    ready(launched, Ready(port=port))
    with pytest.raises(AstunerError, match="answers 503"):
        ready(launched, Ready(url=f"http://127.0.0.1:{port}/"), timeout_s=0.5)


def test_a_line_of_the_log_is_waited_for(start: Start) -> None:
    launched = start("echo first; sleep 0.3; echo server on 80; sleep 60")
    ready(launched, Ready(log=r"^server on \d+$"))
    assert "server on 80" in launched.tail()


def test_all_signs_are_waited_for(start: Start) -> None:
    with pytest.raises(AstunerError, match="no line of its output matches 'second'"):
        ready(start("echo first; sleep 60"), Ready(log="second"), timeout_s=0.3)


def test_without_a_sign_it_only_has_to_live(start: Start) -> None:
    assert ready(start(), Ready()) == []


def test_one_that_ends_first_is_told_with_its_last_lines(start: Start) -> None:
    with pytest.raises(AstunerError, match=r"(?s)ended before it was ready \(exit status 7\).*out of luck"):
        ready(start("echo out of luck; exit 7"), Ready(log="ready"))


def test_a_port_of_somebody_else_does_not_make_a_dead_program_ready(start: Start) -> None:
    port = free_port()
    ready(start(python=LISTENS.format(port=port), name="first"), Ready(port=port))
    second = start("exit 1", name="second")
    while second.poll() is None:
        time.sleep(0.02)
    with pytest.raises(AstunerError, match=r"'second' ended before it was ready"):
        ready(second, Ready(port=port))


def test_progress_is_told_while_it_starts(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "REPORT_S", 0.1)
    said = ready(start("sleep 2; echo ready; sleep 60"), Ready(log="ready"))
    assert re.search(r"starting, \d+ of at most 20 s$", said[0])
