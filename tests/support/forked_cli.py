"""The command line in a child of a process that has imported it alone: as clean as one started for it, and ten times quicker."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen
from harness import environment

TIMEOUT_S = 120

ANSWER = """
import json, pathlib, sys
from astuner.cli import exit_code_of

def answer(arguments, result):
    code = exit_code_of(arguments)
    pathlib.Path(result).write_text(json.dumps([code, sorted(sys.modules)]))
"""
"""Runs a command; what it gave and had imported by then is written to a file."""

ALONE = f"{ANSWER}\nanswer(sys.argv[2:], sys.argv[1])"

SERVER = f"""{ANSWER}
import contextlib, importlib, os

for number, line in enumerate(sys.stdin):
    call = json.loads(line)
    child = os.fork()
    if not child:
        os.chdir(call["cwd"])
        sys.path[1:1] = call["path"]
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        said = os.open(call["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1)
        os.dup2(said, 2)
        try:
            answer(call["arguments"], call["result"])
        except BaseException:
            sys.excepthook(*sys.exc_info())
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    os.waitpid(child, 0)
    print(flush=True)
    # What the first command imported takes most of the time of the others: they find it here.
    for name in json.loads(pathlib.Path(call["result"]).read_text())[1] if number == 0 else ():
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
"""


@frozen
class Answered:
    """What a command did: its exit code, what was imported by then, and what it said."""

    code: int
    imported: frozenset[str]
    said: str


@frozen
class ForkedCli:
    """A process that forks a child for each command."""

    process: subprocess.Popen[str]

    def run(self, arguments: Sequence[str], *, cwd: Path, path: Sequence[Path] = ()) -> Answered:
        """Run a command in a directory, with further directories on the path of modules."""
        assert self.process.stdin
        assert self.process.stdout
        result, said = cwd.parent / "forked.json", cwd.parent / "forked.txt"
        call = {"arguments": arguments, "cwd": cwd, "path": path, "result": result, "said": said}
        print(json.dumps(call, default=str), file=self.process.stdin, flush=True)
        ready, _, _ = select.select([self.process.stdout], [], [], TIMEOUT_S)
        assert ready, f"no end after {TIMEOUT_S} s: {said.read_text(encoding='utf-8')}"
        assert self.process.stdout.readline() == "\n", "the process that forks has ended"
        return _read(result, said.read_text(encoding="utf-8"))


@contextmanager
def fork_server() -> Iterator[ForkedCli]:
    """Start the process that forks, and end it."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", SERVER], env=environment(), stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield ForkedCli(process)
        finally:
            process.kill()


def run_alone(arguments: Sequence[str], *, cwd: Path, path: str) -> Answered:
    """Run a command in a process of its own."""
    result = cwd.parent / "alone.json"
    command = [sys.executable, "-c", ALONE, str(result), *arguments]
    env = environment({"PYTHONPATH": path})
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    return _read(result, done.stdout + done.stderr)


def _read(result: Path, said: str) -> Answered:
    assert result.is_file(), said
    code, imported = json.loads(result.read_text(encoding="utf-8"))
    return Answered(code, frozenset(imported), said)
