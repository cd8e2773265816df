"""Commands in children of a process that has imported what they need: each can be killed, and none waits for the imports."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import define, frozen

PARENT = """
import json, os, runpy, sys
import tinker, torch, transformers
import astuner.runs.training.loop, astuner_tinker.learner, astuner_tinker.spending
from astuner.cli import exit_code_of

for line in sys.stdin:
    call = json.loads(line)
    child = os.fork()
    if not child:
        os.chdir(call["cwd"])
        os.environ.update(call["environment"])
        sys.path[0] = call["cwd"]
        said = os.open(call["said"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for number in (1, 2):
            os.dup2(said, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        try:
            if call["prepare"]:
                runpy.run_path(call["prepare"][0])["prepare"](*call["prepare"][1:])
            code = exit_code_of(call["arguments"])
        except BaseException:
            sys.excepthook(*sys.exc_info())
            code = 70
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@define
class ForkedRun:
    """A command that runs."""

    parent: subprocess.Popen[str]
    pid: int
    code: int | None = None

    def poll(self, patience_s: float = 0.0) -> int | None:
        """Return the exit code; None while it runs."""
        assert self.parent.stdout
        if self.code is None and select.select([self.parent.stdout], [], [], patience_s)[0]:
            self.code = int(self.parent.stdout.readline())
        return self.code

    def wait(self, longest_s: float) -> int:
        """Return the exit code; raises AssertionError if it does not end in time."""
        until = time.monotonic() + longest_s
        while (code := self.poll(0.5)) is None:
            assert time.monotonic() < until, f"no end after {longest_s:g} s"
        return code

    def strike(self, kind: signal.Signals) -> None:
        """Send it a signal."""
        if self.poll() is None:
            os.kill(self.pid, kind)


@frozen
class Forker:
    """The process with the imports; it has one command at a time."""

    process: subprocess.Popen[str]

    def begin(
        self, arguments: Sequence[str], *, cwd: Path, said: Path, environment: Mapping[str, str], prepare: Sequence[str] = ()
    ) -> ForkedRun:
        """Start a command in a directory; what it says is appended to a file.

        `prepare` names a Python file, of which the function `prepare` is called first with the rest as its arguments.
        """
        assert self.process.stdin
        assert self.process.stdout
        call = {"arguments": arguments, "cwd": str(cwd), "said": str(said), "environment": dict(environment), "prepare": prepare}
        print(json.dumps(call), file=self.process.stdin, flush=True)
        return ForkedRun(self.process, int(self.process.stdout.readline()))


@contextmanager
def start_forker() -> Iterator[Forker]:
    """Start the process, and end it; a command that it has then ends with the test that began it."""
    pipe, surroundings = subprocess.PIPE, {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, env={**os.environ, **surroundings}, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield Forker(process)
        finally:
            process.kill()
