"""Passes connections to a port of 127.0.0.1 on over stdin and stdout; it runs in containers and needs the standard library alone.

Both streams carry frames: the number of a connection and a length, four bytes each, and then bytes; a frame of length 0 ends a
direction. It ends with its stdin.
"""

from __future__ import annotations

import os
import socket
import sys
import threading

writing = threading.Lock()
connections: dict[int, socket.socket] = {}


def send(number: int, data: bytes) -> None:
    """Write a frame."""
    with writing:
        sys.stdout.buffer.write(number.to_bytes(4, "big") + len(data).to_bytes(4, "big") + data)
        sys.stdout.buffer.flush()


def pass_on(number: int, connection: socket.socket) -> None:
    """Write frames of all that a connection sends."""
    data = b"-"
    while data:
        try:
            data = connection.recv(65536)
        except OSError:
            data = b""
        send(number, data)


def accept(server: socket.socket) -> None:
    """Serve what connects, each in a thread."""
    number = 0
    while True:
        connection, _ = server.accept()
        number += 1
        connections[number] = connection
        try:
            threading.Thread(target=pass_on, args=(number, connection), daemon=True).start()
        except RuntimeError:
            # The container is at its limit of processes.
            connections.pop(number).close()


def main() -> None:
    """Listen, and pass on the frames of stdin."""
    server = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=128)
    sys.stdout.buffer.write(b"ready\n")
    sys.stdout.buffer.flush()
    threading.Thread(target=accept, args=(server,), daemon=True).start()
    while len(header := sys.stdin.buffer.read(8)) == 8:
        number, size = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:], "big")
        data = sys.stdin.buffer.read(size)
        try:
            if data:
                connections[number].sendall(data)
            else:
                connections.pop(number).shutdown(socket.SHUT_WR)
        except (OSError, KeyError):
            # The program has closed it.
            continue
    os._exit(0)


if __name__ == "__main__":
    main()
