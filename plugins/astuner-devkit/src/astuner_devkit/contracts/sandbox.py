"""The contract of sandboxes: files in and out, commands with limits, and nothing left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from unittest import SkipTest

from astuner.contract.errors import ServiceUnavailable
from astuner.contract.protocols import CommandResult, Sandboxes, SandboxSession, SandboxSpec, SandboxTraits, read_traits
from astuner_devkit.contracts.base import Contract, self_contained
from astuner_devkit.contracts.leftovers import PATIENCE_S, find_left_running, list_running
from astuner_devkit.contracts.shape import assert_method
from astuner_devkit.contracts.waiting import run_bounded, wait_within

T = TypeVar("T")

SLEEPER = "(setsid sh -c 'while :; do sleep 0.1; touch alive; done' &) ; sleep 0.3; echo started"
"""Leaves a process behind in another session."""


class SandboxContract(Contract):
    """Rules for sandboxes, in which small programs of `/bin/sh` are run."""

    kind: ClassVar[str] = "sandbox"
    timeout_s: ClassVar[float] = 60.0
    """Time limit for one call."""

    @self_contained
    def test_it_makes_sandboxes(self) -> None:
        """It has the methods `open(spec)` and `close()`, async, and is a subclass of `astuner.contract.protocols.Sandboxes`."""
        target = self.target()
        for name, takes in (("open", ["spec"]), ("close", [])):
            assert_method(target, name, takes, blame=self._blame, is_async=True)
        is_kind = isinstance(target, type) and issubclass(target, Sandboxes)
        assert is_kind, f"{self._blame} must be a subclass of astuner.contract.protocols.Sandboxes"

    def test_a_session_begins_empty(self, tmp_path: Path) -> None:
        """The working directory and the home directory exist, are empty, and are not one inside the other."""

        async def play(session: SandboxSession) -> None:
            result = await self._sh(session, 'pwd; ls -A; ls -A "$HOME"; echo "$HOME"')
            expected = f"{session.workdir}\n{session.home}\n"
            assert result.stdout == expected, (
                f"{self._blame}: a command began in {result.stdout!r:.200} instead of {expected!r:.200}: start it in an empty "
                "`workdir`, with HOME at an empty `home`"
            )

        self._in_session(tmp_path, play)

    def test_files_go_in_and_out(self, tmp_path: Path) -> None:
        """Files arrive as written, also bytes and those of the home directory; what a command wrote is read by patterns."""

        async def play(session: SandboxSession) -> None:
            content = bytes(range(256))
            await self._wait("write_files", session.write_files({"in/a.bin": content, "~/.conf": "é"}))
            result = await self._sh(
                session, 'cat "$HOME/.conf"; mkdir -p out/deep; cp in/a.bin out/deep/b.bin; echo no > out/c.txt'
            )
            assert result.stdout == "é", f"{self._blame}: the home directory's file was {result.stdout!r:.80} instead of 'é'"
            found = await self._wait("read_files", session.read_files(["out/**/*.bin"], max_bytes=1000))
            assert dict(found) == {"out/deep/b.bin": content}, (
                f"{self._blame}: read_files(['out/**/*.bin']) gave {dict(found)!r:.200}: return the bytes of what matches"
            )

        self._in_session(tmp_path, play)

    def test_paths_stay_inside(self, tmp_path: Path) -> None:
        """A path that leads out of the working directory raises `ValueError`, and links in it are not followed."""

        async def play(session: SandboxSession) -> None:
            for path in ("../x", "/x", "~/../x"):
                try:
                    await self._wait("write_files", session.write_files({path: "x"}))
                except ValueError:
                    continue
                raise AssertionError(f"{self._blame}: write_files took the path {path!r}: raise ValueError")
            await self._sh(session, "ln -s /etc/passwd link.txt; ln -s /etc etc; echo mine > own.txt; mkfifo pipe.txt")
            found = await self._wait("read_files", session.read_files(["**/*.txt", "etc/*"], max_bytes=10**6))
            assert list(found) == ["own.txt"], (
                f"{self._blame}: read_files followed a link: {list(found)}: read regular files only"
            )

        self._in_session(tmp_path, play)

    def test_reading_is_bounded(self, tmp_path: Path) -> None:
        """`read_files` returns at most `max_bytes` in all."""

        async def play(session: SandboxSession) -> None:
            await self._sh(session, "for i in 1 2 3 4; do head -c 400 /dev/zero > $i.dat; done; head -c 5000 /dev/zero > big.dat")
            found = await self._wait("read_files", session.read_files(["*.dat"], max_bytes=1000))
            total = sum(map(len, found.values()))
            assert total <= 1000, f"{self._blame}: read_files(max_bytes=1000) returned {total} bytes"
            assert len(found) == 2, f"{self._blame}: read_files(max_bytes=1000) left out files that fit: {list(found)}"

        self._in_session(tmp_path, play)

    def test_a_command_is_reported(self, tmp_path: Path) -> None:
        """Exit code, stdout and stderr are those of the program; it gets its words, stdin, variables and directory as given."""

        async def play(session: SandboxSession) -> None:
            await self._wait("write_files", session.write_files({"sub/x": ""}))
            script = 'printf "%s|%s|%s|" "$1" "$WORD" "$PWD"; cat; echo err >&2; exit 7'
            word = "a b\n$HOME 'é"
            result = await self._wait(
                "run",
                session.run(["/bin/sh", "-c", script, "sh", word], env={"WORD": word}, cwd="sub", stdin="input" * 50_000),
            )
            expected = (7, f"{word}|{word}|{session.workdir}/sub|{'input' * 50_000}", "err\n")
            found = (result.exit_code, result.stdout, result.stderr)
            assert found == expected, f"{self._blame}: a command gave {str(found)[:200]} instead of {str(expected)[:200]}"
            assert result.killed_by is None, f"{self._blame}: a command that ended itself has killed_by {result.killed_by!r}"
            killed = await self._sh(session, "kill -9 $$")
            assert killed.exit_code == -9, f"{self._blame}: one that signal 9 ended has the exit code {killed.exit_code}: give -9"

        self._in_session(tmp_path, play)

    def test_the_environment_is_clean(self, tmp_path: Path) -> None:
        """A program does not get the variables of the run, which may hold keys."""
        os.environ["ASTUNER_CONTRACT_SECRET"] = "sesame"

        async def play(session: SandboxSession) -> None:
            result = await self._sh(session, "env")
            assert "sesame" not in result.stdout, f"{self._blame}: a program sees the variables of the run: pass on only a few"

        try:
            self._in_session(tmp_path, play)
        finally:
            del os.environ["ASTUNER_CONTRACT_SECRET"]

    def test_what_does_not_exist_is_an_os_error(self, tmp_path: Path) -> None:
        """A program or directory that does not exist raises `FileNotFoundError`, and the sandbox goes on."""

        async def play(session: SandboxSession) -> None:
            for words in ({"command": ["astuner-no-such-program"]}, {"command": ["/bin/true"], "cwd": "no-such-directory"}):
                given: dict[str, Any] = dict(words)
                try:
                    await self._wait("run", session.run(given.pop("command"), **given))
                except FileNotFoundError:
                    continue
                raise AssertionError(f"{self._blame}: run({words}) raised no FileNotFoundError")
            assert (await self._sh(session, "echo on")).stdout == "on\n", f"{self._blame}: after a missing program nothing runs"

        self._in_session(tmp_path, play)

    def test_time_is_limited(self, tmp_path: Path) -> None:
        """A command that takes longer than `timeout_s` is ended, with what it wrote so far, and the sandbox goes on."""

        async def play(session: SandboxSession) -> None:
            command = ["/bin/sh", "-c", "trap '' TERM; echo begun; while :; do sleep 1; done"]
            result = await self._wait("run", session.run(command, timeout_s=1.0))
            assert result.killed_by == "timeout", f"{self._blame}: over its time, killed_by is {result.killed_by!r}"
            assert result.stdout == "begun\n", f"{self._blame}: what was written before the end is lost: {result.stdout!r:.80}"
            assert (await self._sh(session, "echo on")).stdout == "on\n", f"{self._blame}: after a timeout nothing runs"

        self._in_session(tmp_path, play)

    def test_output_is_bounded(self, tmp_path: Path) -> None:
        """A program that writes more than `max_output_bytes` is ended, and no more than that is kept."""

        async def play(session: SandboxSession) -> None:
            for stream in ("", " >&2"):
                flood = ["/bin/sh", "-c", f"while :; do echo flood{stream}; done"]
                result = await self._wait("run", session.run(flood, max_output_bytes=10_000))
                kept = len(result.stdout) + len(result.stderr)
                assert result.killed_by == "output", f"{self._blame}: a flood of output has killed_by {result.killed_by!r}"
                assert kept <= 10_000, f"{self._blame}: {kept} bytes of output are kept, of 10000"

        self._in_session(tmp_path, play)

    def test_nothing_runs_after_a_command(self, tmp_path: Path) -> None:
        """What a command has left in the background ends with it, in whichever session it is; it holds no output open."""

        async def play(session: SandboxSession) -> None:
            result = await self._sh(session, SLEEPER)
            assert result.stdout == "started\n", f"{self._blame}: a command gave {result.stdout!r:.80} instead of 'started\\n'"
            await self._sh(session, "rm -f alive; sleep 1")
            found = await self._sh(session, "ls")
            assert "alive" not in found.stdout, (
                f"{self._blame}: a process of an earlier command is alive: end all that it started"
            )

        self._in_session(tmp_path, play)

    def test_cancelling_ends_the_command(self, tmp_path: Path) -> None:
        """A cancelled `run` and `close` leave no process behind."""
        before = list_running()

        async def play(session: SandboxSession) -> None:
            running = asyncio.ensure_future(session.run(["/bin/sh", "-c", SLEEPER + "; sleep 1000"]))
            await asyncio.sleep(0.5)
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

        self._in_session(tmp_path, play)
        self._assert_nothing_left(before)

    def test_siblings_are_apart(self, tmp_path: Path) -> None:
        """Two sandboxes have their own directories; if `separates_files`, a program cannot reach another's, nor the user's."""
        secret = tmp_path / "secret.txt"
        secret.write_text("sesame")

        async def play(sandboxes: Sandboxes) -> None:
            first, second = await self._open(sandboxes), await self._open(sandboxes)
            try:
                await self._wait("write_files", first.write_files({"first.txt": "mine"}))
                for path in ("*", "**/*"):
                    found = await self._wait("read_files", second.read_files([path], max_bytes=1000))
                    assert not found, f"{self._blame}: a sandbox begins with the files of another: {list(found)}"
                if not read_traits(sandboxes, SandboxTraits).separates_files:
                    return
                looked = await self._sh(
                    second, f"cat '{secret}' '{first.workdir}/first.txt' {tmp_path}/*; find / -name first.txt 2>/dev/null"
                )
                seen = [word for word in ("sesame", "mine", "first.txt") if word in looked.stdout]
                assert not seen, (
                    f"{self._blame} says `separates_files`, and a program read {seen} that does not belong to it: {looked}"
                )
            finally:
                await first.close()
                await second.close()

        self._with_sandboxes(tmp_path, play)

    def test_the_gateway_is_reached(self, tmp_path: Path) -> None:
        """A program reaches the gateway at `gateway_url`; if `separates_network`, it reaches nothing else."""
        python = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=20).read().decode())"

        async def play(sandboxes: Sandboxes) -> None:
            async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
                await writer.drain()
                writer.close()

            server, other = [await asyncio.start_server(answer, "127.0.0.1", 0) for _ in range(2)]
            port, closed = (one.sockets[0].getsockname()[1] for one in (server, other))
            session = await self._open(sandboxes, f"http://127.0.0.1:{port}/v1")
            try:
                url = session.gateway_url
                assert (url or "").endswith("/v1"), f"{self._blame}: gateway_url is {url!r}: keep its path"
                found = await self._python(session, python, str(url))
                assert found.stdout.strip() == "hello", f"{self._blame}: {url} is not reached from inside: {found.stderr[-300:]}"
                if read_traits(sandboxes, SandboxTraits).separates_network:
                    found = await self._python(session, python, f"http://127.0.0.1:{closed}/")
                    assert "hello" not in found.stdout, f"{self._blame} says `separates_network`, and reached another server"
            finally:
                await session.close()
                server.close()
                other.close()

        self._with_sandboxes(tmp_path, play)

    def test_closing_leaves_nothing(self, tmp_path: Path) -> None:
        """After `close` of sessions and of all sandboxes, no process and no thread is left; an open session is closed too."""
        before = list_running()

        async def play(sandboxes: Sandboxes) -> None:
            sessions = [await self._open(sandboxes) for _ in range(3)]
            await asyncio.gather(*(self._sh(session, SLEEPER) for session in sessions))
            await self._wait("close", sessions[0].close())

        self._with_sandboxes(tmp_path, play)
        self._assert_nothing_left(before)

    def test_nothing_is_left_of_a_killed_run(self, tmp_path: Path) -> None:
        """If the process that opened a sandbox is killed, its command ends, with all that it started."""
        if not isinstance(type(self).component, str):
            raise SkipTest("it is tried in another process: set `component` to `package.module:Class`")
        self.prepare(tmp_path)
        words = [sys.executable, "-c", _KILLED, type(self).component, json.dumps(dict(self.options)), str(tmp_path)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as worker:
            try:
                assert worker.stdout is not None
                said = worker.stdout.readline().strip()
                assert said == "started", f"{self._blame}: in another process no command was started: {said!r}"
            finally:
                worker.send_signal(signal.SIGKILL)
        until = time.monotonic() + PATIENCE_S
        while (left := _find_marked(str(tmp_path))) and time.monotonic() < until:
            time.sleep(0.05)
        assert not left, f"{self._blame}: processes outlive the killed run: {left}: tie them to the process that opened them"

    async def _open(self, sandboxes: Sandboxes, gateway_url: str | None = None) -> SandboxSession:
        session = await self._wait("open", sandboxes.open(SandboxSpec(episode_id="train/1/task/0", gateway_url=gateway_url)))
        is_session = isinstance(session, SandboxSession)
        assert is_session, f"{self._blame}: open gave {session!r:.80}; it must be an astuner.contract.protocols.SandboxSession"
        return session

    async def _sh(self, session: SandboxSession, script: str) -> CommandResult:
        return await self._wait("run", session.run(["/bin/sh", "-c", script], timeout_s=self.timeout_s / 2))

    async def _python(self, session: SandboxSession, code: str, *words: str) -> CommandResult:
        try:
            return await self._wait("run", session.run(["python3", "-c", code, *words], timeout_s=self.timeout_s / 2))
        except FileNotFoundError as error:
            raise SkipTest("there is no python3 in the sandbox to call the gateway with") from error

    async def _wait(self, name: str, awaitable: Awaitable[T]) -> T:
        return await wait_within(self.timeout_s, f"{self._blame}: {name}", awaitable)

    def _in_session(self, directory: Path, play: Callable[[SandboxSession], Awaitable[None]]) -> None:
        async def open_one(sandboxes: Sandboxes) -> None:
            session = await self._open(sandboxes)
            try:
                await play(session)
            finally:
                await self._wait("close", session.close())

        self._with_sandboxes(directory, open_one)

    def _with_sandboxes(self, directory: Path, play: Callable[[Sandboxes], Awaitable[None]]) -> None:
        async def run() -> None:
            sandboxes: Sandboxes = self._make_or_skip(directory)
            try:
                await play(sandboxes)
            except ServiceUnavailable as error:
                raise AssertionError(f"{self._blame} cannot be used here: {error}") from error
            finally:
                await self._wait("close", sandboxes.close())

        run_bounded(run)

    def _assert_nothing_left(self, before: Any) -> None:
        # Threads of a pool end on their own.
        left = [name for name in find_left_running(before) if not name.startswith("thread 'asyncio_")]
        assert not left, f"{self._blame} leaves running: {', '.join(left)}: end it in `close`"


_KILLED = """
import asyncio, json, sys
from importlib import import_module
from pathlib import Path
from astuner.settings.plugins.drivers import construct
from astuner.settings.plugins.options import build_options
from astuner.contract.protocols import Candidate, SandboxSpec
from astuner_devkit.run_infos import run_info

target, options, directory = sys.argv[1:]
module, _, name = target.partition(":")
cls = getattr(import_module(module), name)
made = construct(
    Candidate(kind="sandbox", name=name, target=target), cls, build_options(cls, json.loads(options), key="sandbox"),
    run_info(Path(directory)),
)

async def main():
    session = await made.open(SandboxSpec(episode_id="e"))
    env = {"ASTUNER_KILLED_RUN": directory}
    script = "(setsid sleep 1000 &); (setsid sleep 1000 &); echo started > here; sleep 1000"
    running = asyncio.ensure_future(session.run(["/bin/sh", "-c", script], env=env))
    while not await session.read_files(["here"], max_bytes=100):
        await asyncio.sleep(0.05)
    print("started", flush=True)
    await running

asyncio.run(main())
"""


def _find_marked(mark: str) -> list[str]:
    import psutil

    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get("ASTUNER_KILLED_RUN") == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(f"{process.pid} ({process.name()})")
    return found
