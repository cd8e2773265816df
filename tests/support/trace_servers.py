"""A server on loopback that takes traces, with scripted answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from attrs import define, field, frozen


@frozen(kw_only=True)
class Posted:
    """A request."""

    path: str
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes


@frozen(kw_only=True)
class Answer:
    """What a server says to it."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(factory=dict)


@define(eq=False)
class TraceServer:
    """A server that remembers what it was sent."""

    address: str
    posted: list[Posted]
    requests_under_way: threading.Semaphore
    """Released once for each request, before it is answered."""

    def read_spans(self) -> dict[str, dict[str, Any]]:
        """Return each span that was sent, by id: its name, its parent, its times, and its attributes."""
        return {span["id"]: span for posted in self.posted for span in read_spans(posted.body) if posted.path.endswith("/traces")}


@contextmanager
def serve(answer: Callable[[Posted], Answer] | None = None) -> Iterator[TraceServer]:
    """Run a server that takes everything, or answers as `answer` says; that may block, and is not waited for."""
    posted: list[Posted] = []
    under_way = threading.Semaphore(0)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = Posted(path=self.path, headers={name.lower(): value for name, value in self.headers.items()}, body=body)
            posted.append(request)
            under_way.release()
            given = answer(request) if answer is not None else Answer()
            self.send_response(given.status)
            for name, value in {**given.headers, "Content-Length": str(len(given.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(given.body)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_: Any) -> None:
            """A client that has given up is no error of this server."""

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        try:
            yield TraceServer(f"http://127.0.0.1:{server.server_address[1]}", posted, under_way)
        finally:
            server.shutdown()


def read_spans(body: bytes) -> list[dict[str, Any]]:
    """Return the spans of a request in protobuf."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    def read(value: Any) -> Any:
        kind = value.WhichOneof("value")
        return [read(item) for item in value.array_value.values] if kind == "array_value" else getattr(value, kind)

    def read_all(attributes: Any) -> dict[str, Any]:
        return {one.key: read(one.value) for one in attributes}

    return [
        {
            "id": span.span_id.hex(),
            "trace": span.trace_id.hex(),
            "parent": span.parent_span_id.hex() or None,
            "name": span.name,
            "kind": span.kind,
            "start": span.start_time_unix_nano,
            "end": span.end_time_unix_nano,
            "status": (span.status.code, span.status.message),
            "attributes": read_all(span.attributes),
            "events": [{"name": event.name, **read_all(event.attributes)} for event in span.events],
            "resource": read_all(resource.resource.attributes),
        }
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
