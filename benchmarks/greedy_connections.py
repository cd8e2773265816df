"""What clients that pipeline requests and read no answers cost the others: time, memory, and the end of the server.

They have no key. Each held connection is sent up to a megabyte of the shortest request. The same client asks before and
while they are held.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
from attrs import define, evolve

HERE = Path(__file__).parent
PATIENCE_S = 120.0
SENDING_S = 5.0
"""Longest time in which the connections are filled."""
CHAT = b'{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":3}'
COMMANDS = {
    "environments": ("env", "serve", "--env", "countdown", "--port", "0"),
    "collector": ("trace", "collect", "--out", "traces.jsonl", "--port", "0"),
    "viewer": ("logview", "show", ".", "--no-open"),
}


@define(eq=False)
class Server:
    """One server, in a process of its own."""

    process: subprocess.Popen[str]
    port: int
    request: bytes
    """What a client asks that may use it."""

    def resident_mb(self) -> float:
        """Return its resident set size."""
        return float(psutil.Process(self.process.pid).memory_info().rss) / (1 << 20)

    def ask(self) -> float:
        """Return the milliseconds until an answer begins, on a connection of its own."""
        begun = time.perf_counter()
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S) as client:
            client.sendall(self.request)
            assert client.recv(9) == b"HTTP/1.1 "
        return 1e3 * (time.perf_counter() - begun)

    def end(self) -> float:
        """Return the seconds that it takes to end."""
        begun = time.perf_counter()
        if self.process.stdin is None:
            self.process.terminate()
        else:
            self.process.stdin.close()
        self.process.wait(PATIENCE_S)
        return time.perf_counter() - begun


@contextlib.contextmanager
def started(kind: str) -> Iterator[Server]:
    """Run a server."""
    with tempfile.TemporaryDirectory() as folder:
        if kind == "gateway":
            command = [sys.executable, str(HERE / "recorder_servers.py"), "gateway"]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert process.stdout
            said = json.loads(process.stdout.readline())
            port, key = said["port"], said["keys"][0]
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n".encode()
            request = b"%sContent-Length: %d\r\n\r\n%s" % (head, len(CHAT), CHAT)
        else:
            command, log = [sys.executable, "-m", "astuner", *COMMANDS[kind]], Path(folder, "log")
            with log.open("w") as output:
                process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder, text=True)
            while (address := re.search(r"127\.0\.0\.1:(\d+)", log.read_text())) is None:
                time.sleep(0.1)
            port = int(address[1])
            request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % port
        try:
            yield Server(process, port, request)
        finally:
            process.kill()
            process.wait()


def hold(server: Server, number: int, held: list[socket.socket]) -> int:
    """Open connections until there are `number`, and fill them; return the bytes that were taken."""
    request = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % server.port
    left: dict[socket.socket, bytes] = {}
    while len(held) < number:
        client = socket.create_connection(("127.0.0.1", server.port))
        client.setblocking(False)
        left[client] = request * ((1 << 20) // len(request))
        held.append(client)
    sent, end = 0, time.monotonic() + SENDING_S
    while left and time.monotonic() < end:
        for client, data in tuple(left.items()):
            try:
                taken = client.send(data)
            except BlockingIOError:
                continue
            except OSError:
                # The server has closed it.
                del left[client]
                continue
            sent += taken
            left[client] = data[taken:]
            if not left[client]:
                del left[client]
    return sent


def measure(kind: str, numbers: Sequence[int], asks: int) -> None:
    """Print a row for each number of held connections."""
    with started(kind) as server:
        held: list[socket.socket] = []
        # The first unknown path makes the gateway load what else it may serve.
        unknown = evolve(server, request=b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % server.port)
        for _ in range(asks):
            unknown.ask()
            server.ask()
        for number in (0, *numbers):
            sent = hold(server, number, held)
            begun, times = time.monotonic(), []
            while len(times) < asks and (not times or time.monotonic() - begun < PATIENCE_S):
                times.append(server.ask())
            row = f"{kind:<14}{number:>6}{sent >> 10:>12}{server.resident_mb():>10.0f}"
            print(row + "".join(f"{ms:>12.1f}" for ms in (times[0], statistics.median(times), max(times))), flush=True)
        print(f"{kind:<14} ended {server.end():.1f} s after it was asked to, with {len(held)} connections held", flush=True)
        for client in held:
            client.close()


def main() -> None:
    """Measure the servers that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("servers", nargs="*", metavar="SERVER", help=f"gateway, {', '.join(COMMANDS)}; by default all")
    parser.add_argument("--held", type=int, nargs="*", default=[1, 5, 20, 40], help="Numbers of connections.")
    parser.add_argument("--asks", type=int, default=50, help="Requests of the client that may use the server.")
    given = parser.parse_args()
    print(f"{'server':<14}{'held':>6}{'KiB taken':>12}{'RSS MB':>10}{'first ms':>12}{'median ms':>12}{'worst ms':>12}")
    for kind in given.servers or ("gateway", *COMMANDS):
        measure(kind, given.held, given.asks)


if __name__ == "__main__":
    main()
