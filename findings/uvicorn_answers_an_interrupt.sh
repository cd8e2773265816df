#!/usr/bin/env bash
# uvicorn 0.54.0: a KeyboardInterrupt that is raised while a request is answered becomes an error 500, and the server goes on.
#
# asyncio lets KeyboardInterrupt out of the event loop wherever a task raises it. uvicorn's protocols catch BaseException around
# the application, log it with a traceback, and answer 500. httptools, which calls back for each part of a request, turns it
# into an error of its parser before uvicorn sees it, and uvicorn answers 400. So in a program that serves beside other work,
# with Python's usual handler for Ctrl-C instead of uvicorn's, whether Ctrl-C ends it depends on where it was just then.
# A task that is cancelled at the end of the loop while it answers is logged with a traceback in the same way.
#
# Seen with httptools 0.9.0 and Python 3.11.7 on Linux, 30 November 2026:
#   a task: the loop has ended with KeyboardInterrupt
#   the application: 500, then 204
#   a callback of the parser: 400, then 204
#   the end of the loop: logged 'Exception in ASGI application'
# Exits with 1 if that has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "uvicorn==0.54.0" "httptools==0.9.0"
cat >"$work/interrupt.py" <<'PYTHON'
import asyncio
import contextlib
import logging
import socket

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

logged = []


class Keep(logging.Handler):
    def emit(self, record):
        logged.append(record.getMessage().strip())


async def application(scope, receive, send):
    if scope["path"] == "/interrupted":
        raise KeyboardInterrupt
    if scope["path"] == "/waiting":
        await asyncio.sleep(60)
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


class Protocol(HttpToolsProtocol):
    def on_url(self, url):
        super().on_url(url)
        if url == b"/parsed":
            raise KeyboardInterrupt


class Server(uvicorn.Server):
    """Leaves signals to the program, as `asyncio.run(server.serve())` does inside a larger one."""

    capture_signals = staticmethod(contextlib.nullcontext)


async def ask(address, path):
    reader, writer = await asyncio.open_connection(*address)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    line = await reader.readline()
    writer.close()
    return line.split()[1].decode()


async def serve(paths):
    listening = socket.create_server(("127.0.0.1", 0))
    server = Server(uvicorn.Config(application, http=Protocol, log_config=None, lifespan="off"))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    while not server.started:
        await asyncio.sleep(0.01)
    if paths == ["/waiting"]:
        asyncio.create_task(ask(listening.getsockname(), "/waiting"))
        await asyncio.sleep(0.5)
        return []
    answers = [await ask(listening.getsockname(), path) for path in paths]
    server.should_exit = True
    await serving
    return answers


async def interrupt():
    raise KeyboardInterrupt


async def wait_for_a_task():
    await asyncio.gather(asyncio.create_task(interrupt()), asyncio.sleep(60))


logging.getLogger("uvicorn.error").addHandler(Keep())
logging.getLogger("uvicorn.error").propagate = False
try:
    asyncio.run(wait_for_a_task())
except KeyboardInterrupt:
    print("a task: the loop has ended with KeyboardInterrupt")
print("the application:", ", then ".join(asyncio.run(serve(["/interrupted", "/"]))))
print("a callback of the parser:", ", then ".join(asyncio.run(serve(["/parsed", "/"]))))
logged.clear()
asyncio.run(serve(["/waiting"]))
print("the end of the loop: logged", *(repr(line) for line in logged if "ASGI" in line))
PYTHON
"$work/venv/bin/python" "$work/interrupt.py" | tee "$work/seen"
diff "$work/seen" - <<'EXPECTED'
a task: the loop has ended with KeyboardInterrupt
the application: 500, then 204
a callback of the parser: 400, then 204
the end of the loop: logged 'Exception in ASGI application'
EXPECTED
