"""The program that leads a sandbox: it starts one command after the other, and ends all that a command has started.

Its arguments are the number of a socket to the starter, the user that commands run as or `-`, the most processes of a command,
the limits as `RLIMIT_CORE=0,…`, and the directories that it empties if the starter vanishes. It follows orders, each a line
with a number of bytes and then these bytes: fields with a NUL after each. The descriptors that belong to an order come with its
first byte. It answers with lines, the first of which is `ready`.

* `run`, the working directory, the number of words, the words, and variables as `NAME=value`, with three descriptors, for stdin,
  stdout and stderr: `status -9 none` when the command and all that it started have ended, with what ended it (`processes`), or
  `errno 2 PATH` if it cannot be started.
* `kill` ends the command that runs; there is no answer but that to its order.
* `listen`, a port: `listening` with a socket that listens on it at 127.0.0.1, or `errno 98 PLACE`.
* `end` ends it. So does the end of the file, which means that the starter was killed.

It is the first process of its namespace, or a subreaper, so no process below it escapes by leaving its session. One is started
for each episode, so it imports nothing that takes time: with `socket`, `signal` and `json` it would need twice as long to start.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found] # it has no stubs
import _socket
import os
import resource
import select
import sys
import time

LOOK_S = 1.0
"""How often the processes of a command are counted."""
GIVE_UP_S = 10.0
"""A process that survives SIGKILL for this long hangs in the kernel, and cannot be ended."""
PR_SET_CHILD_SUBREAPER = 36
PR_SET_DUMPABLE = 4
SYS_KEYCTL = {"x86_64": 250, "aarch64": 219}


def main() -> None:
    """Follow orders until there are no more."""
    number, uid, most, limits, *remove = sys.argv[1:]
    channel = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, int(number))
    if os.getpid() != 1:
        _call_libc("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    else:
        if uid == "-":
            # Its commands have its user, who could otherwise read its memory and variables, and take over its socket.
            _call_libc("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)
        # The kernel's keys have no namespace: with a new session keyring (1), commands do not have the run's.
        if keyctl := SYS_KEYCTL.get(os.uname().machine):
            _call_libc("syscall", keyctl, 1, None)
    woken = _watch_children()
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    supervisor = Supervisor(channel, woken, None if uid == "-" else int(uid), int(most), limits)
    try:
        _answer(channel, "ready")
        supervisor.serve()
    finally:
        _end_all()
        if not supervisor.was_told_to_end:
            _remove(remove)
        os._exit(0)


def _call_libc(name: str, *arguments: int | None) -> None:
    if sys.platform == "linux":
        import ctypes

        getattr(ctypes.CDLL(None), name)(*arguments)


def _watch_children() -> int:
    """Return a descriptor that becomes readable when a child ends."""
    readable, written = os.pipe()
    for end in (readable, written):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    return readable


class Supervisor:
    """The settings of a sandbox, and the command that runs in it."""

    def __init__(self, channel: _socket.socket, woken: int, uid: int | None, max_processes: int, limits: str) -> None:
        """`woken` becomes readable when a child ends."""
        self._channel, self._woken = channel, woken
        self._uid, self._max_processes = uid, max_processes
        self._limits = [
            (getattr(resource, name), int(value)) for name, _, value in (one.partition("=") for one in limits.split(","))
        ]
        self._command: int | None = None
        self._killed_by = "none"
        self._held = b""
        self._descriptors: list[int] = []
        self.was_told_to_end = False
        """Whether the starter removes the files itself."""

    def serve(self) -> None:
        """Follow orders until the last one, or the end of the file."""
        channel = self._channel.fileno()
        while not self.was_told_to_end:
            ready, _, _ = select.select([channel, self._woken], [], [], None if self._command is None else LOOK_S)
            if channel in ready and not self._read():
                return
            if self._woken in ready:
                os.read(self._woken, 4096)
            self._look()

    def _read(self) -> bool:
        data, more, _, _ = self._channel.recvmsg(65536, _socket.CMSG_SPACE(8 * 4))
        for _, _, packed in more:
            whole = len(packed) - len(packed) % 4
            self._descriptors += [int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, whole, 4)]
        self._held += data
        while True:
            size, line, rest = self._held.partition(b"\n")
            if not line or len(rest) < int(size):
                return bool(data)
            self._held = rest[int(size) :]
            self._follow([os.fsdecode(one) for one in rest[: int(size)].split(b"\0")[:-1]])

    def _follow(self, order: list[str]) -> None:
        match order:
            case ["run", cwd, count, *rest]:
                words, variables = rest[: int(count)], dict(one.split("=", 1) for one in rest[int(count) :])
                found = self._start(words, variables, cwd)
                self._descriptors, self._killed_by = [], "none"
                if isinstance(found, str):
                    _answer(self._channel, found)
                else:
                    self._command = found
            case ["kill"]:
                if self._command is not None:
                    os.kill(self._command, signal.SIGKILL)
            case ["listen", port]:
                _listen(self._channel, int(port))
            case ["end"]:
                self.was_told_to_end = True

    def _look(self) -> None:
        """Answer if the command has ended; end it if it has too many processes."""
        status = _reap(self._command)
        if self._command is None:
            return
        if status is not None:
            _end_all()
            _answer(self._channel, f"status {status} {self._killed_by}")
            self._command = None
        elif self._killed_by == "none" and _count() > self._max_processes:
            self._killed_by = "processes"
            os.kill(self._command, signal.SIGKILL)

    def _start(self, words: list[str], variables: dict[str, str], cwd: str) -> int | str:
        """Return the process of a command, or the answer that says why there is none."""
        # They are inheritable, as they come from a socket; the child takes copies.
        for one in self._descriptors:
            os.set_inheritable(one, False)
        heard, told = os.pipe()
        process = os.fork()
        if not process:
            self._become(words, variables, cwd, told)
        os.close(told)
        for one in self._descriptors:
            os.close(one)
        with open(heard, "rb") as pipe:
            failure = pipe.read()
        if not failure:
            return process
        os.waitpid(process, 0)
        return os.fsdecode(failure)

    def _become(self, words: list[str], variables: dict[str, str], cwd: str, told: int) -> None:
        at = words[0]
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            for target, source in enumerate(self._descriptors):
                os.dup2(source, target)
            for kind, most in self._limits:
                _limit(kind, most)
            if self._uid is not None:
                os.setgroups([])
                os.setgid(self._uid)
                os.setuid(self._uid)
            at = cwd
            os.chdir(cwd)
            at = words[0]
            os.umask(0o022)
            os.execvpe(words[0], words, variables)
        except OSError as error:
            os.write(told, os.fsencode(f"errno {error.errno} {at}"))
        os._exit(127)


def _limit(kind: int, most: int) -> None:
    _, hard = resource.getrlimit(kind)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (most, most))


def _listen(channel: _socket.socket, port: int) -> None:
    server = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    try:
        server.bind(("127.0.0.1", port))
        server.listen(64)
        packed = server.fileno().to_bytes(4, sys.byteorder)
        channel.sendmsg([b"listening\n"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, packed)])
    except OSError as error:
        _answer(channel, f"errno {error.errno} 127.0.0.1:{port}")
    server.close()


def _answer(channel: _socket.socket, answer: str) -> None:
    try:
        channel.sendall(os.fsencode(f"{answer}\n"))
    except OSError:
        # The starter is gone; the next read says so.
        return


def _reap(command: int | None) -> int | None:
    """Take the status of every child that has ended; return the command's."""
    found = None
    while True:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if not process:
            return found
        if process == command:
            found = os.waitstatus_to_exitcode(status)


def _end_all() -> None:
    """Kill every process below this one, until there is none: those that lose their parent become children of this one."""
    until = time.monotonic() + GIVE_UP_S
    while time.monotonic() < until:
        _kill()
        _reap(None)
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        time.sleep(0.002)


def _kill() -> None:
    for target in [-1] if os.getpid() == 1 else _find_below(os.getpid()):
        try:
            os.kill(target, signal.SIGKILL)
        except OSError:
            continue


def _count() -> int:
    if os.getpid() == 1:
        return sum(name.isdigit() for name in os.listdir("/proc")) - 1
    return len(_find_below(os.getpid()))


def _find_below(process: int) -> list[int]:
    """Return the descendants of a process."""
    found: list[int] = []
    waiting = [process]
    while waiting:
        tasks = f"/proc/{waiting.pop()}/task"
        try:
            for task in os.listdir(tasks):
                with open(f"{tasks}/{task}/children", encoding="ascii") as file:
                    waiting += (children := [int(word) for word in file.read().split()])
                    found += children
        except OSError:
            # It has ended.
            continue
    return found


def _remove(directories: list[str]) -> None:
    """Remove what is in the directories, and the directories too if that is allowed, and what they were in if it is empty."""
    if directories:
        from tree_removal import remove_tree  # type: ignore[import-not-found] # a neighbour on the path of this program

        for directory in directories:
            remove_tree(directory)
            try:
                os.rmdir(os.path.dirname(directory))
            except OSError:
                continue
