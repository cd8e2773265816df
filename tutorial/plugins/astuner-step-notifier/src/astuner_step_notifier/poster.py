"""Posts texts from a separate thread: the caller never waits, even if the webhook is slow or down."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable

CAPACITY = 100
"""Size of the queue; further texts are lost, and counted."""


class Poster:
    """Posts one text after the other. The URL holds a secret, so no message of this class shows it."""

    def __init__(self, url: str, *, timeout_s: float, say: Callable[[str], None]) -> None:
        """`say` is called in the posting thread for the first text that could not be posted."""
        self._url, self._timeout_s, self._say = url, timeout_s, say
        self._waiting: queue.Queue[str | None] = queue.Queue(maxsize=CAPACITY)
        self._ending = threading.Event()
        self._posted = self._given = 0
        self._failed = False
        self._thread = threading.Thread(target=self._work, name="astuner-step-notifier", daemon=True)
        self._thread.start()

    def post(self, text: str) -> None:
        """Queue a text and return at once."""
        self._given += 1
        try:
            self._waiting.put_nowait(text)
        except queue.Full:
            self._fail(f"{CAPACITY} messages wait already")

    def close(self, *, wait_s: float) -> int:
        """Post queued texts for at most `wait_s` seconds; return how many were not posted."""
        deadline = time.monotonic() + wait_s
        with contextlib.suppress(queue.Full):
            self._waiting.put(None, timeout=wait_s)
        self._thread.join(max(0.0, deadline - time.monotonic()))
        self._ending.set()
        return self._given - self._posted

    def _work(self) -> None:
        while (text := self._waiting.get()) is not None and not self._ending.is_set():
            try:
                self._send(text)
                self._posted += 1
            except Exception as error:  # noqa: BLE001 - whatever a network does, the run continues
                self._fail(_reason(error))

    def _send(self, text: str) -> None:
        body = json.dumps({"text": text}).encode()
        request = urllib.request.Request(self._url, data=body, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=self._timeout_s) as answer:
            answer.read()

    def _fail(self, reason: str) -> None:
        if not self._failed:
            self._failed = True
            self._say(f"a message could not be posted ({reason}); the run continues, and further failures are counted")


def _reason(error: Exception) -> str:
    """Return the reason, without any text that could contain the URL."""
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answered {error.code}"
    if isinstance(error, urllib.error.URLError) and isinstance(error.reason, OSError):
        return type(error.reason).__name__
    return type(error).__name__
