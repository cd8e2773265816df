"""`astuner logview` as a user starts it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from astuner_devkit.waiting import until

Start = Callable[..., Any]


def run(directory: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "astuner", "logview", *arguments]
    return subprocess.run(command, cwd=directory, env={**os.environ, **variables}, capture_output=True, text=True, check=False)


def test_without_a_directory_it_shows_the_runs_that_are_made_here(start: Start, tmp_path: Path) -> None:
    (tmp_path / "launcher_record").mkdir()
    server = start()
    with server.open() as client:
        assert client.get("/api/runs").json()["roots"] == [str(tmp_path / "launcher_record")]


def test_a_run_is_found_by_its_name_and_several_may_be_named(start: Start, tmp_path: Path) -> None:
    for path in ("launcher_record/first", "other/second"):
        (tmp_path / path).mkdir(parents=True)
    server = start("show", "first", "other")
    with server.open() as client:
        assert client.get("/api/runs").json()["roots"] == [str(tmp_path / "launcher_record/first"), str(tmp_path / "other")]


def test_an_interrupt_ends_it_quietly_with_all_its_processes(start: Start, tmp_path: Path) -> None:
    server = start(str(tmp_path))
    with server.open() as client, client.stream("GET", "/api/events") as events:
        assert events.status_code == 200
        children = server.children()
        assert server.stop() == 0
    assert server.log.read_text() == ""
    assert [child for child in children if child.is_running()] == []


def test_it_ends_with_the_signal_that_services_get(start: Start, tmp_path: Path) -> None:
    server = start(str(tmp_path))
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(30) == 0
    assert server.log.read_text() == ""


def test_nothing_is_written_where_it_looks(start: Start, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    server = start(str(runs))
    with server.open() as client:
        client.get("/api/runs")
    server.stop()
    assert list(runs.iterdir()) == []


def test_json_is_one_document_with_the_address(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "astuner", "logview", str(tmp_path), "--json"],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    text = ""
    while not text.endswith("}\n"):
        text += process.stdout.readline()
    found = json.loads(text)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[0] == ""
    assert found["url"].startswith(f"http://127.0.0.1:{found['port']}/?open=")
    assert (found["pid"], found["roots"]) == (process.pid, [str(tmp_path)])


def test_a_name_that_is_no_run_is_an_error_with_those_that_are_close(tmp_path: Path) -> None:
    (tmp_path / "launcher_record/first").mkdir(parents=True)
    (tmp_path / "launcher_record/first/run.json").write_text("{}")
    found = run(tmp_path, "frist")
    assert found.returncode == 2
    assert "Did you mean 'first'?" in found.stderr


def test_without_runs_it_says_what_to_name(tmp_path: Path) -> None:
    found = run(tmp_path)
    assert found.returncode == 2
    assert "there is no directory launcher_record here" in found.stderr


@pytest.mark.parametrize("key", ["", "too short"])
def test_another_host_needs_a_key(tmp_path: Path, key: str) -> None:
    found = run(tmp_path, ".", "--host", "0.0.0.0", ASTUNER_LOGVIEW_KEY=key)
    assert found.returncode == 2
    assert "set ASTUNER_LOGVIEW_KEY to a key of at least 16 characters" in found.stderr


def test_with_a_key_another_host_is_served_with_a_warning(start: Start, tmp_path: Path) -> None:
    server = start(str(tmp_path), "--host", "0.0.0.0", ASTUNER_LOGVIEW_KEY="a-key-of-the-tests")
    assert "plain HTTP" in server.log.read_text()
    address = f"http://127.0.0.1:{server.port}/api/runs"
    assert httpx.get(address, timeout=60).status_code == 401
    assert httpx.get(address, auth=("", "a-key-of-the-tests"), timeout=60).status_code == 200


def test_a_port_that_is_taken_is_named(start: Start, tmp_path: Path) -> None:
    server = start(str(tmp_path))
    found = run(tmp_path, ".", "--port", str(server.port))
    assert found.returncode == 2
    assert f"cannot listen on 127.0.0.1:{server.port}" in found.stderr


def test_on_a_terminal_the_address_is_a_link_and_enter_makes_another(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/run.json").write_text("{}")
    mine, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "astuner", "logview", str(tmp_path), "--no-open"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
        preexec_fn=take_terminal,
    )
    os.close(theirs)
    first = read_address(mine)
    os.write(mine, b"\n")
    second = read_address(mine)
    assert first != second
    assert [httpx.get(address, timeout=60).status_code for address in (first, second, first)] == [303, 303, 403]
    # The process that makes indexes.
    children = until(psutil.Process(process.pid).children)
    # Ctrl-C reaches every process of the terminal.
    os.write(mine, b"\x03")
    rest = read_rest(mine)
    assert process.wait(30) == 0
    assert rest.replace(b"^C", b"").strip() == b""
    assert [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE] == []
    os.close(mine)


def take_terminal() -> None:
    """Make stdin the terminal of a new session, as a shell has it."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def read_rest(terminal: int) -> bytes:
    """Return all that is still written; the end of a terminal is an error on Linux."""
    text = b""
    with contextlib.suppress(OSError):
        while data := os.read(terminal, 4096):
            text += data
    return text


def read_address(terminal: int) -> str:
    """Return the next address that is a link whose text it is itself."""
    text = b""
    while not (found := re.search(rb"\x1b\]8;;(http[^\x1b]+)\x1b\\\1\x1b\]8;;\x1b\\", text)):
        text += os.read(terminal, 4096)
    return found[1].decode()
