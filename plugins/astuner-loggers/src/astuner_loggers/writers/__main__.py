"""The process: reads orders from a socket until there are no more, and answers each."""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator

from astuner_loggers.writers.session import Session

LAST_WORDS_S = 30.0
"""How long a process whose run is gone may take to save its data."""


def main(target: str, descriptor: int) -> None:
    """Serve one run; if it hangs up without an order, it was interrupted."""
    channel = socket.socket(fileno=descriptor)
    try:
        session = _session(target)
    except BaseException as error:  # noqa: BLE001 - a library that cannot be imported may raise anything; reported to the run
        _answer(channel, _failure(error))
        return
    for line in _lines(channel):
        try:
            goes_on = session.carry_out(json.loads(line))
        except BaseException as error:  # noqa: BLE001 - libraries end with SystemExit too; reported to the run, which ends this process
            _answer(channel, _failure(error))
            continue
        _answer(channel, {})
        if not goes_on:
            return
    # A library that waits for its service must not keep the process alive.
    _end_after(LAST_WORDS_S)
    session.carry_out({"do": "close", "status": "interrupted"})


def _session(target: str) -> Session:
    module, _, name = target.partition(":")
    return Session(getattr(importlib.import_module(module), name)())


def _lines(channel: socket.socket) -> Iterator[bytes]:
    try:
        with channel.makefile("rb") as orders:
            yield from orders
    except ConnectionError:
        return


def _answer(channel: socket.socket, answer: dict[str, str]) -> None:
    try:
        channel.sendall(json.dumps(answer).encode() + b"\n")
    except ConnectionError:
        return


def _failure(error: BaseException) -> dict[str, str]:
    traceback.print_exception(error)
    return {"failed": f"{type(error).__name__}: {error}"}


def _end_after(seconds: float) -> None:
    timer = threading.Timer(seconds, lambda: os.killpg(0, signal.SIGKILL))
    timer.daemon = True
    timer.start()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
