"""Streams that users' code replaces or closes."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from astuner.episodes.containment.process_streams import keep_streams


def test_streams_that_were_replaced_are_put_back() -> None:
    before = sys.stdout, sys.stderr
    with keep_streams():
        sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
    assert (sys.stdout, sys.stderr) == before


def test_a_stream_that_was_closed_drops_what_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with keep_streams():
        sys.stderr.close()
    with sys.stderr as found:
        print("the end", file=found)


CLOSING = """
import os, socket
from astuner.episodes.containment.process_streams import open_missing_descriptors
os.close(0)
os.close(2)
open_missing_descriptors()
print(socket.socket().fileno() > 2, os.fstat(2).st_rdev == os.stat(os.devnull).st_rdev)
"""


def test_closed_descriptors_are_not_given_to_the_next_socket() -> None:
    done = subprocess.run([sys.executable, "-c", CLOSING], capture_output=True, text=True, check=True)
    assert done.stdout == "True True\n"
