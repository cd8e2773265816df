"""A stand-in for the Docker daemon: the part of its API that the sandbox uses, over a Unix socket, with processes in namespaces.

The SDK and the streams are real, and programs truly run, without a network, in a root directory of their own. It hides what only
the real daemon has: images (the one image is this machine's `/usr`, `/etc` and Python), cgroups (so no limit of memory, CPUs or
processes is enforced, and none is reported), storage drivers, user namespaces, registries, and how long all of it takes. It needs
root, and the programs of util-linux.
"""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import signal
import socketserver
import stat
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4

INIT = Path(__file__).with_name("container_init.py")
SEARCHED = f"{sys.base_prefix}/bin:/usr/local/bin:/usr/bin:/bin"
NAMESPACES = ("--mount", "--pid", "--net", "--ipc")


class Container:
    """A root directory and the processes in it."""

    def __init__(self, directory: Path, config: Mapping[str, Any]) -> None:
        self.id, self.config = uuid4().hex, config
        self.root = directory / self.id
        self.labels: Mapping[str, str] = config.get("Labels") or {}
        self.process: subprocess.Popen[bytes] | None = None
        self.stdin = os.pipe()
        self.out = [os.pipe(), os.pipe()]
        self.removed = threading.Event()
        self.exit_code = 0
        (self.root / "tmp").mkdir(parents=True)

    def start(self) -> None:
        words = ["unshare", *NAMESPACES, "--fork", "--kill-child=KILL", sys.executable, str(INIT), str(self.root)]
        command = [*(self.config.get("Entrypoint") or []), *(self.config.get("Cmd") or [])]
        words += [*_become(self.config.get("User") or "0"), *command]
        self.process = subprocess.Popen(
            words,
            stdin=self.stdin[0],
            stdout=self.out[0][1],
            stderr=self.out[1][1],
            env={"PATH": SEARCHED, "HOSTNAME": "sandbox"},
            cwd="/",
            start_new_session=True,
        )
        for end in (self.stdin[0], self.out[0][1], self.out[1][1]):
            os.close(end)
        threading.Thread(target=self._wait, daemon=True).start()

    def find_first(self) -> int:
        """Return the number of its first process here."""
        assert self.process is not None
        for _ in range(500):
            text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
            if text.split():
                return int(text.split()[0])
            time.sleep(0.01)
        raise RuntimeError("the container has no process")

    def count(self) -> int:
        space = os.readlink(f"/proc/{self.find_first()}/ns/pid")
        count = 0
        for name in os.listdir("/proc"):
            try:
                count += name.isdigit() and os.readlink(f"/proc/{name}/ns/pid") == space
            except OSError:
                continue
        return count

    def measure(self) -> int:
        total = 0
        for folder, _, names in os.walk(self.root):
            for name in names:
                # It may be removed meanwhile, with its container too.
                with suppress(OSError):
                    found = os.lstat(os.path.join(folder, name))
                    total += found.st_size if stat.S_ISREG(found.st_mode) else 0
        return total

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
        elif self.process is None:
            self._remove()

    def _wait(self) -> None:
        assert self.process is not None
        self.exit_code = self.process.wait()
        self._remove()

    def _remove(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        self.removed.set()


class Exec:
    """A process in a running container."""

    def __init__(self, container: Container, config: Mapping[str, Any]) -> None:
        self.id, self.container, self.config = uuid4().hex, container, config
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes]:
        limits = {one["Name"]: one["Hard"] for one in self.container.config["HostConfig"].get("Ulimits") or []}
        user = self.config.get("User") or self.container.config.get("User") or "0"
        words = ["prlimit", *(f"--{name}={most}" for name, most in limits.items()), "nsenter", "-t"]
        words += [str(self.container.find_first()), *NAMESPACES, "--root", "--wd", *_become(user), *self.config["Cmd"]]
        given = dict(one.split("=", 1) for one in self.config.get("Env") or [])
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": SEARCHED, **given},
            start_new_session=True,
        )
        return self.process


class StandIn(socketserver.ThreadingUnixStreamServer):
    """The daemon. Each connection has a thread."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, socket: Path, directory: Path, images: Sequence[str]) -> None:
        self.directory, self.images = directory, images
        self.containers: dict[str, Container] = {}
        self.execs: dict[str, Exec] = {}
        super().__init__(str(socket), Handler)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def list_left(self) -> list[Container]:
        """Return the containers that are not removed."""
        return [one for one in self.containers.values() if not one.removed.is_set()]

    def end(self) -> None:
        """End it, as a daemon that is killed, and then what it has started."""
        self.shutdown()
        self.server_close()
        for one in self.list_left():
            one.kill()
            one.removed.wait(10)


class Handler(BaseHTTPRequestHandler):
    """The calls of one connection."""

    protocol_version = "HTTP/1.1"
    server: StandIn

    def address_string(self) -> str:
        return "local"

    def log_message(self, *_: object) -> None:
        return

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_PUT(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        self.query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.body = self._read_body()
        words = [unquote(word) for word in parts.path.split("/") if word]
        if words and words[0].startswith("v1."):
            del words[0]
        try:
            self._answer_call(self.command, words)
        except (FileNotFoundError, ProcessLookupError) as error:
            # Its container has just ended.
            self._refuse(409, f"container is not running: {error}")

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _answer_call(self, method: str, words: Sequence[str]) -> None:
        match method, words:
            case "GET", ["version"]:
                self._answer({"ApiVersion": "1.41", "Version": "stand-in"})
            case "GET", ["info"]:
                self._answer({"OSType": "linux"})
            case "GET", ["images", *name, "json"]:
                image = "/".join(name)
                self._answer({"Id": image}) if image in self.server.images else self._refuse(404, f"No such image: {image}")
            case "POST", ["images", "create"]:
                self._refuse(500, "this registry serves nothing")
            case "POST", ["containers", "create"]:
                self._create(json.loads(self.body))
            case "GET", ["containers", "json"]:
                self._list(json.loads(self.query.get("filters", "{}")))
            case "GET", ["events"]:
                self._send(200, b"")
            case _, ["containers", name, *rest]:
                container = self.server.containers.get(name)
                if container is None or container.removed.is_set():
                    self._refuse(404, f"No such container: {name}")
                else:
                    self._answer_container(method, container, rest)
            case _, ["exec", name, what]:
                process = self.server.execs[name]
                if what == "start":
                    self._stream_exec(process)
                else:
                    code = None if process.process is None else process.process.poll()
                    self._answer({"Running": code is None, "ExitCode": _translate(code)})
            case _:
                self._refuse(404, f"page not found: {method} {words}")

    def _answer_container(self, method: str, container: Container, rest: Sequence[str]) -> None:
        match method, rest:
            case "POST", ["start"]:
                container.start()
                self._send(204, b"")
            case "POST", ["attach"]:
                self._stream(container.stdin[1], [end[0] for end in container.out])
            case "POST", ["exec"]:
                made = Exec(container, json.loads(self.body))
                self.server.execs[made.id] = made
                self._answer({"Id": made.id}, 201)
            case "PUT", ["archive"]:
                with tarfile.open(fileobj=io.BytesIO(self.body)) as archive:
                    archive.extractall(self._place(container), numeric_owner=True, filter="fully_trusted")
                self._send(200, b"")
            case "GET", ["archive"]:
                self._pack(self._place(container))
            case "GET", ["json"]:
                is_running = container.process is not None and container.process.poll() is None
                self._answer({"Id": container.id, "State": {"Running": is_running, "ExitCode": container.exit_code}})
            case "GET", ["stats"]:
                self._answer({"pids_stats": {"current": container.count()}})
            case "POST", ["wait"]:
                container.removed.wait(30)
                self._answer({"StatusCode": container.exit_code})
            case "DELETE", []:
                container.kill()
                container.removed.wait(10)
                self._send(204, b"")
            case _:
                self._refuse(404, f"page not found: {method} {rest}")

    def _create(self, config: Mapping[str, Any]) -> None:
        if config["Image"] not in self.server.images:
            self._refuse(404, f"No such image: {config['Image']}")
        elif config.get("HostConfig", {}).get("StorageOpt"):
            self._refuse(400, "--storage-opt is supported only for overlay over xfs with 'pquota' mount option")
        else:
            container = Container(self.server.directory, config)
            self.server.containers[container.id] = container
            self._answer({"Id": container.id, "Warnings": []}, 201)

    def _list(self, filters: Mapping[str, Sequence[str]]) -> None:
        wanted = [one.partition("=") for one in filters.get("label", [])]

        def matches(one: Container) -> bool:
            labels = (key in one.labels and (not equals or one.labels[key] == value) for key, equals, value in wanted)
            return (not filters.get("id") or one.id in filters["id"]) and all(labels)

        left = [one for one in self.server.list_left() if matches(one)]
        found = [{"Id": one.id, "Labels": one.labels, "State": "running", "SizeRw": one.measure()} for one in left]
        self._answer(found)

    def _place(self, container: Container) -> Path:
        return container.root / self.query["path"].lstrip("/")

    def _pack(self, path: Path) -> None:
        if not path.exists() and not path.is_symlink():
            self._refuse(404, f"Could not find the file {path.name} in container")
            return
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            archive.add(path, path.name)
        described = base64.b64encode(json.dumps({"name": path.name, "size": 0, "mode": 0}).encode()).decode()
        self._send(200, buffer.getvalue(), {"X-Docker-Container-Path-Stat": described})

    def _stream_exec(self, made: Exec) -> None:
        process = made.start()
        outputs = [stream.fileno() for stream in (process.stdout, process.stderr) if stream is not None]
        assert process.stdin is not None
        self._stream(os.dup(process.stdin.fileno()), outputs, process)

    def _stream(self, stdin: int, outputs: Sequence[int], process: subprocess.Popen[bytes] | None = None) -> None:
        """Carry the stream of a process on the connection of the call, until its output ends."""
        self.connection.sendall(
            b"HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\n"
            b"Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
        )
        if process is not None and process.stdin is not None:
            process.stdin.close()
        writing = threading.Lock()

        def feed() -> None:
            try:
                while data := self.connection.recv(65536):
                    os.write(stdin, data) if len(data) <= 4096 else _write_all(stdin, data)
            except OSError:
                # The process reads no more, or the connection is gone.
                pass
            os.close(stdin)

        def report(stream: int, output: int) -> None:
            while data := os.read(output, 32768):
                try:
                    with writing:
                        self.connection.sendall(bytes([stream, 0, 0, 0]) + len(data).to_bytes(4, "big") + data)
                except OSError:
                    continue

        feeding = threading.Thread(target=feed, daemon=True)
        feeding.start()
        reporting = [threading.Thread(target=report, args=one, daemon=True) for one in enumerate(outputs, 1)]
        for thread in reporting:
            thread.start()
        for thread in reporting:
            thread.join()
        if process is not None:
            process.wait()
        self.close_connection = True

    def _answer(self, answer: Any, status: int = 200) -> None:
        self._send(status, json.dumps(answer).encode(), {"Content-Type": "application/json"})

    def _refuse(self, status: int, message: str) -> None:
        self._answer({"message": message}, status)

    def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def find_obstacle() -> str | None:
    """Return why it cannot be used here; None if it can."""
    if os.geteuid() != 0:
        return "the stand-in for the daemon needs root"
    missing = [name for name in ("unshare", "nsenter", "setpriv", "prlimit", "mount") if shutil.which(name) is None]
    if missing:
        return f"the stand-in for the daemon needs {missing[0]}, of util-linux"
    tried = subprocess.run(["unshare", *NAMESPACES, "--fork", "true"], capture_output=True, text=True, check=False)
    return f"the stand-in for the daemon may make no namespaces here: {tried.stderr.strip()}" if tried.returncode else None


def _become(user: str) -> list[str]:
    """Return the words that run a program as a user without capabilities."""
    uid, _, gid = user.partition(":")
    ids = [f"--reuid={uid}", f"--regid={gid or uid}", "--clear-groups"]
    return ["setpriv", *ids, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]


def _translate(code: int | None) -> int | None:
    return code if code is None or code >= 0 else 128 - code


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
