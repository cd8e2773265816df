"""The collector takes in what OpenTelemetry's clients send, and what users say, and loses nothing.

One file, long as it is: a small test for each thing that it may be sent.
"""

from __future__ import annotations

import errno
import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from astuner.contract.errors import UsageError
from astuner.model.http_server import ServerLimits, listen, make_server
from astuner_devkit.command_line import run_command
from astuner_tracing.collector import app as application
from astuner_tracing.collector.app import CollectorCounts, make_app
from astuner_tracing.collector.bodies import unpack
from astuner_tracing.collector.serving import REQUESTS_AT_ONCE
from astuner_tracing.collector.store import TraceFile
from astuner_tracing.otlp import parse_span

Make = Callable[..., Any]


class Collector:
    """A collector in a process of its own."""

    def __init__(self, out: Path, *arguments: str, **variables: str) -> None:
        self.out = out
        command = [sys.executable, "-m", "astuner", "trace", "collect", "--port=0", f"--out={out}", *arguments]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, cwd=out.parent, env={**os.environ, **variables}
        )
        assert self.process.stderr is not None
        first = self.process.stderr.readline()
        assert "traces at http://" in first, first + self.process.stderr.read()
        self.url = first.split("traces at ")[1].split("/v1/traces")[0]
        self.client = httpx.Client(base_url=self.url, trust_env=False)

    def end(self, number: int = signal.SIGINT) -> tuple[int, str]:
        self.client.close()
        self.process.send_signal(number)
        assert self.process.stderr is not None
        return self.process.wait(30), self.process.stderr.read()

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.read_text().splitlines()]

    @property
    def spans(self) -> list[dict[str, Any]]:
        return [
            span
            for line in self.lines
            for resource in line.get("resourceSpans", ())
            for scope in resource["scopeSpans"]
            for span in scope["spans"]
        ]


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    started = Collector(tmp_path_factory.mktemp("open") / "traces.jsonl")
    yield started
    started.end()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    out = tmp_path_factory.mktemp("guarded") / "traces.jsonl"
    started = Collector(out, "--max-body-mb=1", ASTUNER_TRACE_TOKEN="s3cret")
    yield started
    code, said = started.end()
    assert (code, "s3cret" in said) == (0, False)


def request(*spans: Mapping[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "hand-made"}, "spans": list(spans)}]}]}


JSON = {"content-type": "application/json"}
PROTOBUF = {"content-type": "application/x-protobuf"}


def test_what_opentelemetrys_sdk_sends_becomes_a_task(collector: Collector, tmp_path: Path):
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="opentelemetry-exporter-otlp-proto-http")
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    provider = TracerProvider()
    exporter = OTLPSpanExporter(endpoint=f"{collector.url}/v1/traces", compression=Compression.Gzip)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("agent")
    with tracer.start_as_current_span("invoke_agent sdk") as agent:
        agent.set_attribute("gen_ai.operation.name", "invoke_agent")
        agent.set_attribute("gen_ai.input.messages", json.dumps([{"role": "user", "content": "Sent by the SDK?"}]))
        with tracer.start_as_current_span("execute_tool search") as tool:
            tool.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"})
        agent.set_attribute("gen_ai.output.messages", json.dumps([{"role": "assistant", "content": "Yes."}]))
        trace_id, span_id = (f"{agent.get_span_context().trace_id:032x}", f"{agent.get_span_context().span_id:016x}")
    provider.shutdown()
    said = collector.client.post("/v1/feedback", json={"trace_id": trace_id, "span_id": span_id, "thumbs": "up", "user": "u1"})
    assert (said.status_code, said.json()) == (200, {"stored": True})

    out = tmp_path / "tasks.jsonl"
    assert run_command("trace", "import", collector.out, "--out", out, cwd=tmp_path).code == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    (row,) = [row for row in rows if row["main_query"] == "Sent by the SDK?"]
    assert row["metadata"]["trace"]["trace_id"] == trace_id
    assert (row["metadata"]["answer"], row["metadata"]["tools"], row["metadata"]["reward"]) == ("Yes.", ["search"], 1.0)


@pytest.mark.parametrize("pack", [lambda body: body, gzip.compress, zlib.compress, lambda body: zlib.compress(body, wbits=-15)])
def test_json_made_by_hand_in_each_encoding(collector: Collector, span: Make, pack: Callable[[bytes], bytes]):
    before = len(collector.spans)
    body = json.dumps(request(span(1, before + 1))).encode()
    packed = pack(body)
    encoding = "identity" if packed is body else "gzip" if packed[:2] == b"\x1f\x8b" else "deflate"
    answer = collector.client.post("/v1/traces", content=packed, headers={**JSON, "content-encoding": encoding})
    assert (answer.status_code, answer.json(), answer.headers["content-type"]) == (200, {}, "application/json")
    assert collector.spans[-1]["spanId"] == f"{before + 1:016x}"


def test_protobuf_is_written_with_ids_in_hex_as_the_json_of_otlp_has_them(collector: Collector):
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse

    sent = ExportTraceServiceRequest()
    one = sent.resource_spans.add().scope_spans.add().spans.add()
    one.trace_id, one.span_id, one.parent_span_id, one.name, one.kind = b"\xab" * 16, b"\xcd" * 8, b"\xef" * 8, "raw", 3
    one.start_time_unix_nano = 2**63 + 1
    one.attributes.add(key="n").value.int_value = -5
    answer = collector.client.post("/v1/traces", content=sent.SerializeToString(), headers=PROTOBUF)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-protobuf")
    assert not ExportTraceServiceResponse.FromString(answer.content).HasField("partial_success")
    written = collector.spans[-1]
    assert (written["traceId"], written["spanId"], written["parentSpanId"]) == ("ab" * 16, "cd" * 8, "ef" * 8)
    assert (written["kind"], written["startTimeUnixNano"]) == (3, str(2**63 + 1))
    assert parse_span(written, "s").attributes == {"n": -5}


def test_spans_without_valid_ids_are_rejected_and_the_others_kept(collector: Collector, span: Make):
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse

    before = len(collector.spans)
    bad = span(1, 77) | {"traceId": "0" * 32, "name": "bad"}
    answer = collector.client.post("/v1/traces", json=request(bad, span(1, 78), 5))
    partial = answer.json()["partialSuccess"]
    assert (answer.status_code, partial["rejectedSpans"]) == (200, "2")
    assert "'bad' has no valid traceId" in partial["errorMessage"]
    assert [one["spanId"] for one in collector.spans[before:]] == [f"{78:016x}"]

    sent = ExportTraceServiceRequest()
    sent.resource_spans.add().scope_spans.add().spans.add(name="idless")
    answer = collector.client.post("/v1/traces", content=sent.SerializeToString(), headers=PROTOBUF)
    assert ExportTraceServiceResponse.FromString(answer.content).partial_success.rejected_spans == 1


@pytest.mark.parametrize("odd", [{"resourceSpans": ["x"]}, {"resourceSpans": [{"scopeSpans": ["x"]}]}])
def test_what_is_no_object_is_rejected_and_the_spans_beside_it_kept(collector: Collector, span: Make, odd: Mapping[str, Any]):
    before = len(collector.spans)
    sent = {"resourceSpans": [*odd["resourceSpans"], *request(span(1, 79))["resourceSpans"]]}
    answer = collector.client.post("/v1/traces", json=sent)
    assert (answer.status_code, answer.json()["partialSuccess"]["rejectedSpans"]) == (200, "1")
    assert "is an object" in answer.json()["partialSuccess"]["errorMessage"]
    assert [one["spanId"] for one in collector.spans[before:]] == [f"{79:016x}"]


@pytest.mark.parametrize(
    ("body", "headers", "status", "said"),
    [
        (b"{", JSON, 400, "not valid JSON"),
        (b"[]", JSON, 400, "resourceSpans"),
        (b"\xff\xff\xff", PROTOBUF, 400, "not a valid traces request"),
        (b"{}", {"content-type": "text/plain"}, 415, "text/plain"),
        (b"{}", {**JSON, "content-encoding": "br"}, 415, "br"),
        (b"no gzip", {**JSON, "content-encoding": "gzip"}, 400, "not valid gzip"),
        (gzip.compress(b"{}" * 500, mtime=0)[:20], {**JSON, "content-encoding": "gzip"}, 400, "cut off"),
    ],
)
def test_what_is_no_request_is_refused(collector: Collector, body: bytes, headers: Mapping[str, str], status: int, said: str):
    answer = collector.client.post("/v1/traces", content=body, headers=dict(headers))
    assert (answer.status_code, said in answer.text) == (status, True), answer.text


def test_a_refusal_in_protobuf_is_a_status_with_a_message(collector: Collector):
    from google.protobuf.message import Message
    from google.rpc.status_pb2 import Status

    answer = collector.client.post("/v1/traces", content=b"\xff\xff", headers=PROTOBUF)
    status: Message = Status.FromString(answer.content)
    assert "not a valid traces request" in status.message


def test_an_empty_request_writes_nothing(collector: Collector):
    before = len(collector.lines)
    assert collector.client.post("/v1/traces", json={"resourceSpans": []}).status_code == 200
    assert len(collector.lines) == before


def test_many_at_once_are_whole_lines(collector: Collector, span: Make):
    def send(number: int) -> int:
        return httpx.post(f"{collector.url}/v1/traces", json=request(span(5, number)), trust_env=False).status_code

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(send, range(1000, 1100))) == {200}
    assert {one["spanId"] for one in collector.spans} >= {f"{number:016x}" for number in range(1000, 1100)}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"thumbs": "up"}, "what is rated is missing"),
        ({"trace_id": "1" * 32}, "the feedback is empty"),
        ({"trace_id": "zz", "thumbs": "up"}, "32 hex digits"),
        ({"conversation_id": "c", "score": "1"}, "score must be a number"),
        ({"conversation_id": "c", "score": True}, "score must be a number"),
        ({"conversation_id": "c", "thumbs": "sideways"}, "'up' or 'down'"),
        ({"conversation_id": "c", "thumbs": "up", "stars": 5}, "unknown fields: stars"),
        ({"conversation_id": "c", "comment": 5}, "comment must be a string"),
        ([], "must be a JSON object"),
        ({"conversation_id": "c \ud800", "thumbs": "up"}, "half a surrogate pair"),
        ({"conversation_id": "c", "\udfff": "up"}, "unknown fields: \\udfff"),
    ],
)
def test_feedback_that_says_nothing_or_of_nothing(collector: Collector, body: Any, said: str):
    answer = collector.client.post("/v1/feedback", content=json.dumps(body), headers=JSON)
    assert (answer.status_code, said in answer.json()["message"]) == (400, True)


def test_a_web_page_cannot_speak_for_its_visitor(collector: Collector):
    answer = collector.client.post("/v1/feedback", content=b'{"conversation_id": "c", "thumbs": "up"}')
    assert (answer.status_code, "application/json" in answer.text) == (415, True)


def test_feedback_of_a_conversation_with_a_correction(collector: Collector, asked: Make, tmp_path: Path):
    collector.client.post("/v1/traces", json=request(asked(901, "Corrected?", "No.", conversation="c-901", at=-(10**8))))
    body = {"conversation_id": "c-901", "score": 0, "comment": "wrong", "correction": "Yes."}
    assert collector.client.post("/v1/feedback", json=body).status_code == 200
    assert run_command("trace", "import", collector.out, "--out", "t.jsonl", cwd=tmp_path).code == 0
    rows = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    (found,) = [row["metadata"] for row in rows if row["main_query"] == "Corrected?"]
    assert (found["answer"], found["rejected_answer"], found["reward"]) == ("Yes.", "No.", 0.0)


def test_a_thumb_with_a_label_is_a_thumb(collector: Collector, asked: Make, tmp_path: Path):
    collector.client.post("/v1/traces", json=request(asked(902, "Too long?", "Yes and no.", conversation="c-902", at=-(10**8))))
    body = {"conversation_id": "c-902", "thumbs": "down", "label": "too long"}
    assert collector.client.post("/v1/feedback", json=body).status_code == 200
    assert run_command("trace", "import", collector.out, "--out", "t.jsonl", cwd=tmp_path).code == 0
    rows = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    (found,) = [row["metadata"] for row in rows if row["main_query"] == "Too long?"]
    assert ("answer" in found, found["reward"], found["feedback"][0]["label"]) == (False, 0.0, "too long")


def test_a_token_is_needed_where_one_is_set(guarded: Collector, span: Make):
    for headers in ({}, {"authorization": "Bearer other"}, {"authorization": "Bearer s3crét".encode()}):
        for path in ("/v1/traces", "/v1/feedback"):
            assert guarded.client.post(path, json=request(span(1, 1)), headers=headers).status_code == 401
    assert guarded.lines == []
    assert guarded.client.get("/health").json() == {"status": "ok"}
    answer = guarded.client.post("/v1/traces", json=request(span(1, 1)), headers={"authorization": "Bearer s3cret"})
    assert answer.status_code == 200
    assert "s3cret" not in guarded.out.read_text()


def test_a_body_that_is_too_large_is_refused_packed_or_not(guarded: Collector):
    large = b" " * (1 << 20) + b"{}"
    bearing = {**JSON, "authorization": "Bearer s3cret"}
    assert guarded.client.post("/v1/traces", content=large, headers=bearing).status_code == 413
    packed = gzip.compress(b" " * (64 << 20) + b"{}")
    answer = guarded.client.post("/v1/traces", content=packed, headers={**bearing, "content-encoding": "gzip"})
    assert (answer.status_code, len(packed) < 1 << 20) == (413, True)


def test_other_machines_need_a_token(tmp_path: Path):
    done = run_command("trace", "collect", "--host=0.0.0.0", "--port=0", "--out=t.jsonl", cwd=tmp_path)
    assert done.code == 2
    assert "ASTUNER_TRACE_TOKEN" in done.err
    assert not (tmp_path / "t.jsonl").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_ends_with_what_it_was_told_on_disk(tmp_path: Path, span: Make, number: int):
    started = Collector(tmp_path / "traces.jsonl")
    started.client.post("/v1/traces", json=request(span(1, 1), span(1, 2)))
    code, said = started.end(number)
    assert (code, len(started.spans)) == (0, 2)
    assert "collected 2 spans" in said
    assert "Traceback" not in said


def test_a_second_collector_on_one_file_is_refused_and_killed_ones_leave_it_free(tmp_path: Path, span: Make):
    started = Collector(tmp_path / "traces.jsonl")
    started.client.post("/v1/traces", json=request(span(1, 1)))
    done = run_command("trace", "collect", "--port=0", "--out=traces.jsonl", cwd=tmp_path)
    assert done.code == 2
    assert "another collector writes to it" in done.err
    started.process.kill()
    started.process.wait()
    assert started.process.stderr is not None
    started.process.stderr.close()
    started.client.close()
    # What was answered with 200 is in the file, and a line cut off in the middle spoils no other.
    with (tmp_path / "traces.jsonl").open("a") as file:
        file.write('{"resourceSp')
    again = TraceFile(tmp_path / "traces.jsonl", rotate_bytes=None, sync_s=1)
    again.append(request(span(1, 2)))
    again.close()
    first, cut, last = (tmp_path / "traces.jsonl").read_text().splitlines()
    assert (cut, json.loads(first) != json.loads(last)) == ('{"resourceSp', True)


def test_a_full_file_gets_a_number(tmp_path: Path):
    file = TraceFile(tmp_path / "traces.jsonl", rotate_bytes=100, sync_s=1)
    for number in range(5):
        file.append({"number": number, "filling": "x" * 60})
    file.close()
    names = ["traces.0001.jsonl", "traces.0002.jsonl", "traces.0003.jsonl", "traces.0004.jsonl", "traces.jsonl"]
    assert [json.loads((tmp_path / name).read_text())["number"] for name in names] == [0, 1, 2, 3, 4]
    assert sorted(path.name for path in tmp_path.glob("traces*.jsonl")) == names


def test_a_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = TraceFile(tmp_path / "traces.jsonl", rotate_bytes=None, sync_s=1)
    file.append({"number": 1})
    write, calls = os.write, iter([3, None])

    def writes_a_little(handle: int, data: Any) -> int:
        size = next(calls)
        if size is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(handle, data[:size])

    monkeypatch.setattr(os, "write", writes_a_little)
    with pytest.raises(OSError, match="No space"):
        file.append({"number": 2})
    monkeypatch.undo()
    file.append({"number": 3})
    file.close()
    assert [json.loads(line)["number"] for line in (tmp_path / "traces.jsonl").read_text().splitlines()] == [1, 3]


def test_threads_write_one_after_the_other(tmp_path: Path):
    file = TraceFile(tmp_path / "traces.jsonl", rotate_bytes=2000, sync_s=0)
    threads = [
        threading.Thread(target=lambda who=who: [file.append({"who": who, "n": n}) for n in range(50)]) for who in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    file.close()
    lines = [json.loads(line) for path in tmp_path.glob("traces*.jsonl") for line in path.read_text().splitlines()]
    assert len({(line["who"], line["n"]) for line in lines}) == len(lines) == 200


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        TraceFile(tmp_path / "file" / "traces.jsonl", rotate_bytes=None, sync_s=1)


def test_a_file_that_cannot_be_begun_is_gone_on_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = TraceFile(tmp_path / "traces.jsonl", rotate_bytes=100, sync_s=1)
    file.append({"number": 0, "filling": "x" * 60})

    def refuses(*_: Any) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuses)
        file.append({"number": 1, "filling": "x" * 60})
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", refuses)
        file.append({"number": 2, "filling": "x" * 60})
    file.append({"number": 3, "filling": "x" * 60})
    file.close()
    lines = {path.name: path.read_text().splitlines() for path in tmp_path.glob("*.jsonl")}
    numbers = {name: [json.loads(line)["number"] for line in those] for name, those in lines.items()}
    assert numbers == {"traces.0001.jsonl": [0, 1, 2], "traces.jsonl": [3]}


def test_connections_on_which_nothing_is_asked_shut_nobody_out(tmp_path: Path, span: Make):
    started = Collector(tmp_path / "traces.jsonl")
    address = ("127.0.0.1", int(started.url.rpartition(":")[2]))
    idle = [socket.create_connection(address) for _ in range(REQUESTS_AT_ONCE + 20)]
    assert started.client.post("/v1/traces", json=request(span(1, 1))).status_code == 200
    for connection in idle:
        connection.close()
    assert started.end()[0] == 0


@pytest.mark.asyncio
@pytest.mark.parametrize(("path", "body"), [("/v1/traces", b"{}"), ("/v1/feedback", b'{"conversation_id": "c", "score": 1}')])
async def test_bodies_are_read_in_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, body: bytes):
    readers = []
    monkeypatch.setattr(application, "unpack", lambda *given: readers.append(threading.current_thread()) or unpack(*given))
    file = TraceFile(tmp_path / "traces.jsonl", rotate_bytes=None, sync_s=1)
    app = make_app(file, CollectorCounts(), token=None, max_body_bytes=1000, at_once=2, body_timeout_s=3)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        assert (await client.post(path, content=body, headers=JSON)).status_code == 200
    assert readers
    assert threading.current_thread() not in readers


def unfinished(address: tuple[str, int], token: str) -> socket.socket:
    head = "POST /v1/feedback HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n"
    connection = socket.create_connection(address, timeout=30)
    connection.sendall(f"{head}Authorization: Bearer {token}\r\n\r\n".encode())
    return connection


@pytest.fixture
def few(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """The address of a collector that answers two requests at once and has little patience, in this process."""
    file = TraceFile(tmp_path / "traces.jsonl", rotate_bytes=None, sync_s=1)
    app = make_app(file, CollectorCounts(), token="t", max_body_bytes=1000, at_once=2, body_timeout_s=3)
    server = make_server(app, ServerLimits(headers_timeout_s=1, body_timeout_s=3), name="trace collector")
    listening = listen("127.0.0.1", 0)
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]))
    thread.start()
    yield listening.getsockname()
    server.should_exit = True
    thread.join()
    file.close()


def test_only_those_who_bear_the_token_take_places_and_further_ones_are_told_to_come_again(few: tuple[str, int]):
    ask = {"json": {"conversation_id": "c", "thumbs": "up"}, "headers": {"authorization": "Bearer t"}, "trust_env": False}
    url = f"http://{few[0]}:{few[1]}/v1/feedback"
    strangers = [unfinished(few, "other") for _ in range(5)]
    assert all(b" 401 " in one.recv(100) for one in strangers)
    assert httpx.post(url, **ask).status_code == 200
    slow = [unfinished(few, "t") for _ in range(2)]
    # They are there as soon as the server has looked at them.
    answer = next(one for _ in range(500) if (one := httpx.post(url, **ask)).status_code != 200)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    # Whoever does not send what was announced is sent away, and the place is free.
    assert all(b" 408 " in one.recv(100) for one in slow)
    assert httpx.post(url, **ask).status_code == 200
    for one in (*strangers, *slow):
        one.close()


@pytest.mark.parametrize("sent", [b"", b"POST /v1/tr"])
def test_a_connection_that_begins_no_request_is_closed(few: tuple[str, int], sent: bytes):
    with socket.create_connection(few, timeout=30) as connection:
        connection.sendall(sent)
        assert connection.recv(100) == b""
