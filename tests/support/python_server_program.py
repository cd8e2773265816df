"""The process of `python_server`: imports modules, then forks a child for each command that comes over its socket.

It has one thread, since a child gets only the thread that forks.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
from typing import Any

LONGEST_CALL = 1 << 20


def main() -> None:
    """Serve at the socket `sys.argv[1]` until this process is killed; the other arguments are modules to import."""
    path, *preload = sys.argv[1:]
    for name in preload:
        importlib.import_module(name)
    assert len(os.listdir("/proc/self/task")) == 1, "an import started a thread, which a child would lack"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen(64)
    gc.freeze()
    print("ready", flush=True)
    if (call := serve(listener)) is not None:
        become(*call)


def serve(listener: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Answer calls for ever; in a child, return the call that it is for, and its stdin, stdout and stderr."""
    ended, tell_ended = os.pipe()
    os.set_blocking(tell_ended, False)
    signal.set_wakeup_fd(tell_ended, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    children: dict[int, socket.socket] = {}
    while True:
        ready, _, _ = select.select([listener, ended], [], [])
        if listener in ready:
            connection, _ = listener.accept()
            call, files = receive(connection)
            child = os.fork()
            if not child:
                signal.set_wakeup_fd(-1)
                for each in (connection, listener, *children.values()):
                    each.close()
                os.close(ended)
                os.close(tell_ended)
                return call, files
            for file in files:
                os.close(file)
            connection.send(str(child).encode())
            children[child] = connection
        if ended in ready:
            os.read(ended, 4096)
            report(children)


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Read one call and the files that come with it."""
    message, ancillary, _, _ = connection.recvmsg(LONGEST_CALL, socket.CMSG_LEN(3 * array.array("i").itemsize))
    files = array.array("i")
    for _, _, data in ancillary:
        files.frombytes(data)
    return json.loads(message), [*files]


def report(children: dict[int, socket.socket]) -> None:
    """Send the exit code of every child that has ended to who asked for it."""
    while children:
        child, status = os.waitpid(-1, os.WNOHANG)
        if not child:
            return
        # The test may have ended before its child.
        with children.pop(child) as connection, contextlib.suppress(OSError):
            connection.send(str(os.waitstatus_to_exitcode(status)).encode())


def become(call: dict[str, Any], files: list[int]) -> None:
    """Be the process that was asked for, up to the end of its program; the interpreter then ends as always."""
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    # As in a terminal, whatever the shell of the tests does with programs in its background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if call["new_session"]:
        os.setsid()
    for standard, file in enumerate(files):
        os.dup2(file, standard)
        os.close(file)
    os.environ.clear()
    os.environ.update(call["env"])
    os.chdir(call["cwd"])
    way, what, *arguments = call["arguments"]
    # As `python -m` and `python -c` do; the directory of this program is not to be found.
    sys.path[0] = os.getcwd() if way == "-m" else ""
    sys.path[1:1] = filter(None, call["env"].get("PYTHONPATH", "").split(os.pathsep))
    sys.argv[:] = [way, *arguments]
    if way == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})


if __name__ == "__main__":
    main()
