"""Starts the process that makes indexes, and says which runs matter."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from attrs import define, field

LOOK_S = 1.0
"""Between two looks for new runs."""
MOST_STARTS = 5
"""A process that ends this often is not started again."""


@define(eq=False)
class Indexer:
    """Indexes runs in a child process while the server answers."""

    list_paths: Callable[[], Sequence[Path]]
    """Returns the real paths of all runs that there are."""
    report: Callable[[Path, str], object] = field(default=lambda run, text: None)
    """Gets the path of a run that cannot be indexed, and why; an empty text once it can."""
    _child: subprocess.Popen[str] | None = field(default=None, init=False)
    _sent: dict[Path, bool] = field(factory=dict, init=False)
    _starts: int = field(default=0, init=False)
    _wanted: set[Path] = field(factory=set, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _wake: threading.Event = field(factory=threading.Event, init=False)
    _stopped: bool = field(default=False, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread = threading.Thread(target=self._watch, name="logview indexer", daemon=True)
        self._thread.start()

    def want(self, run: Path) -> None:
        """Index a run before the others, however large it is."""
        if run not in self._wanted:
            self._wanted.add(run)
            self._wake.set()

    def stop(self) -> None:
        """End the child process."""
        self._stopped = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            child, self._child = self._child, None
        if child is not None and child.stdin is not None:
            child.stdin.close()
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def _watch(self) -> None:
        while not self._stopped:
            self._wake.clear()
            paths = dict.fromkeys([*self._wanted, *self.list_paths()])
            if paths and not self._stopped:
                self._send(list(paths))
            self._wake.wait(LOOK_S)

    def _send(self, paths: Sequence[Path]) -> None:
        with self._lock:
            if self._child is None or self._child.poll() is not None:
                if self._starts >= MOST_STARTS:
                    return
                self._starts += 1
                self._sent.clear()
                self._child = _start_child()
                threading.Thread(target=self._listen, args=(self._child,), name="logview index reports", daemon=True).start()
            news = [path for path in paths if self._sent.get(path) != (path in self._wanted)]
            try:
                for path in news:
                    assert self._child.stdin is not None
                    self._child.stdin.write(json.dumps({"run": str(path), "wanted": path in self._wanted}) + "\n")
                    self._sent[path] = path in self._wanted
                if news and self._child.stdin is not None:
                    self._child.stdin.flush()
            except OSError:
                # It has ended; the next look starts another one.
                self._sent.clear()

    def _listen(self, child: subprocess.Popen[str]) -> None:
        assert child.stdout is not None
        with child.stdout:
            for line in child.stdout:
                message = json.loads(line)
                self.report(Path(message["run"]), message["problem"])


def _start_child() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "astuner_logview.index.worker"]
    # Ctrl-C in a terminal is for the server, whose end closes the input.
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
