"""Talking to a child process in lines of JSON: framing, time limits, ending it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

_LEAST_S = 0.001
"""A socket takes 0 for never waiting at all."""


class JsonLines:
    """Our end of a socket to a child. One thread talks, any may close.

    After an error the next line may be late or incomplete: end the child.
    """

    def __init__(self, channel: socket.socket) -> None:
        self._channel, self._received = channel, b""
        self._in_use = threading.Lock()

    def send(self, message: Mapping[str, Any], timeout_s: float) -> None:
        """Write a line; raises `TimeoutError`, or another `OSError` if the child has ended."""
        with self._in_use:
            self._channel.settimeout(max(timeout_s, _LEAST_S))
            self._channel.sendall(json.dumps(message).encode() + b"\n")

    def receive(self, timeout_s: float) -> Mapping[str, Any]:
        """Read a line; raises `TimeoutError`, or another `OSError` if the child has ended."""
        deadline_s = time.monotonic() + timeout_s
        with self._in_use:
            while b"\n" not in self._received:
                self._channel.settimeout(max(deadline_s - time.monotonic(), _LEAST_S))
                received = self._channel.recv(65536)
                if not received:
                    raise ConnectionResetError("it ended")
                self._received += received
        line, _, self._received = self._received.partition(b"\n")
        found: Mapping[str, Any] = json.loads(line)
        return found

    def has_more(self) -> bool:
        """Whether the child has written more than was read."""
        with self._in_use:
            if self._received:
                return True
            self._channel.setblocking(False)
            try:
                return bool(self._channel.recv(1, socket.MSG_PEEK))
            except OSError:
                return False

    def close(self) -> None:
        """Hang up, which the child sees as the end of its input. A thread that waits for a line gets an `OSError`."""
        # Its number must not be reused while another thread reads from it.
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        with self._in_use:
            self._channel.close()


def end_child(process: subprocess.Popen[Any], grace_s: float = 0.0) -> None:
    """Wait for a process that leads its process group, and kill the group if it takes longer than `grace_s`."""
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
