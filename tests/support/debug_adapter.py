"""A client of the Debug Adapter Protocol in a few lines: what an editor says to debugpy."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Self

Message = Mapping[str, Any]


class Editor:
    """Talks to an adapter; ends what it was asked to start."""

    def __init__(self, reads: BinaryIO, writes: BinaryIO, process: subprocess.Popen[bytes] | None = None) -> None:
        self._reads, self._writes = reads, writes
        self._started = [process] if process is not None else []
        self._numbers = itertools.count(1)

    @classmethod
    def with_adapter(cls, env: Mapping[str, str]) -> Self:
        """Start an adapter of one's own, as an editor does to launch a program."""
        command = [sys.executable, "-m", "debugpy.adapter"]
        adapter = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(env))
        assert adapter.stdin is not None
        assert adapter.stdout is not None
        return cls(adapter.stdout, adapter.stdin, adapter)

    @classmethod
    def attached(cls, port: int, limit_s: float = 180) -> Self:
        """Connect to a program that listens."""
        ends_at = time.monotonic() + limit_s
        while True:
            try:
                found = socket.create_connection(("127.0.0.1", port))
            except OSError:
                assert time.monotonic() < ends_at, "nobody listens"
                time.sleep(0.1)
            else:
                found.settimeout(limit_s)
                return cls(found.makefile("rb"), found.makefile("wb"))

    def begin(self, configuration: Mapping[str, Any]) -> None:
        """Do what an editor does with a configuration of its launch.json."""
        self.ask("initialize", adapterID="test", linesStartAt1=True, pathFormat="path", supportsRunInTerminalRequest=True)
        self._send(type="request", command=configuration["request"], arguments=configuration)
        self.event("initialized")
        self.ask("configurationDone")

    def ask(self, command: str, **arguments: Any) -> Message:
        """Return the body of the answer."""
        number = self._send(type="request", command=command, arguments=arguments)
        answer = self._until(lambda message: message.get("request_seq") == number)
        assert answer["success"], answer
        return answer.get("body", {})

    def event(self, name: str) -> Message:
        """Return the body of the next event of a name."""
        return self._until(lambda message: message.get("event") == name).get("body", {})

    def stopped_at(self) -> tuple[str, int, int, int]:
        """Return file, line, frame and thread of the next stop."""
        thread = self.event("stopped")["threadId"]
        frame = self.ask("stackTrace", threadId=thread)["stackFrames"][0]
        return os.path.basename(frame["source"]["path"]), frame["line"], frame["id"], thread

    def _until(self, wanted: Callable[[Message], bool]) -> Message:
        while True:
            message = self._read()
            if message.get("command") == "runInTerminal" and message["type"] == "request":
                self._run_in_terminal(message)
            elif wanted(message):
                return message

    def _run_in_terminal(self, message: Message) -> None:
        asked = message["arguments"]
        env = {**os.environ, **{name: value for name, value in asked.get("env", {}).items() if value is not None}}
        self._started.append(
            subprocess.Popen(asked["args"], cwd=asked["cwd"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        )
        self._send(type="response", request_seq=message["seq"], success=True, command="runInTerminal", body={})

    def _send(self, **message: Any) -> int:
        number = next(self._numbers)
        body = json.dumps({"seq": number, **message}).encode()
        self._writes.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._writes.flush()
        return number

    def _read(self) -> Message:
        length = 0
        while line := self._reads.readline().strip():
            length = int(line.partition(b":")[2]) if line.lower().startswith(b"content-length") else length
        assert length, "the adapter has ended"
        found: Message = json.loads(self._reads.read(length))
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writes.close()
        for process in self._started:
            process.kill()
            process.wait()
        self._reads.close()
