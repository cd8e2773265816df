"""Reading the frames of all threads while threads start and end, and while objects are collected that let others run."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from astuner.episodes.containment.code_lines import read_current_frames

# Without the pause of the collector this often stops for good on Python 3.11.
STRESS = """
import gc, threading, time
from astuner.episodes.containment.code_lines import read_current_frames

class Cycle:
    def __del__(self):
        time.sleep(0.0001)

over = threading.Event()

def rest():
    time.sleep(0.0001)

def move():
    while not over.is_set():
        time.sleep(0.0001)
        rest()

def start_threads():
    while not over.is_set():
        thread = threading.Thread(target=rest)
        thread.start()
        thread.join()

def look():
    for _ in range(400):
        gc.disable()
        for _ in range(30):
            cycle = Cycle()
            cycle.itself = cycle
            del cycle
        gc.set_threshold(1)
        gc.enable()
        read_current_frames()
        gc.set_threshold(100_000)
    over.set()

threads = [threading.Thread(target=target) for target in (*(start_threads,) * 2, *(move,) * 20, look)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("ended")
"""


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    yield
    gc.enable()


@pytest.mark.parametrize("is_on", [True, False])
def test_the_collector_is_off_meanwhile_and_afterwards_as_before(is_on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[bool] = []
    monkeypatch.setattr(sys, "_current_frames", lambda: found.append(gc.isenabled()) or {})
    (gc.enable if is_on else gc.disable)()
    read_current_frames()
    assert (found, gc.isenabled()) == ([False], is_on)


def test_each_thread_has_its_frame() -> None:
    ready, over = threading.Event(), threading.Event()

    def wait() -> None:
        ready.set()
        over.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    ready.wait()
    frames = read_current_frames()
    over.set()
    thread.join()
    assert {thread.ident, threading.get_ident()} <= frames.keys()


def test_threads_start_and_end_meanwhile() -> None:
    ended = subprocess.run([sys.executable, "-c", STRESS], capture_output=True, text=True, timeout=300, check=False)
    assert (ended.returncode, ended.stdout) == (0, "ended\n"), ended.stderr
