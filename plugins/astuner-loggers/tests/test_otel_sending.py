"""How traces are sent: what requests look like, what is lost and reported, and that a run does not wait."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from attrs import evolve
from tool_episodes import make_call, make_episode, make_group
from trace_servers import Answer, Posted, TraceServer, serve

from astuner.contract.errors import PluginError
from astuner.shared.install_hints import install_command
from astuner_devkit.contracts import LoggerContract
from astuner_devkit.run_infos import run_info
from astuner_loggers.otel import logger as otel_logger
from astuner_loggers.otel.logger import OtelLogger
from astuner_loggers.otel.sender import MOST_WAITING

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="comes with the extra otel")

PATIENCE_S = 600.0


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[TraceServer]:
    with serve() as found:
        yield found


@pytest.fixture(scope="module")
def closed_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def make_logger(directory: Path, /, **options: Any) -> OtelLogger:
    return OtelLogger.from_run(OtelLogger.Options(**{"timeout_s": PATIENCE_S, **options}), run_info(directory))


def send(directory: Path, /, *groups: Any, resumed: bool = False, **options: Any) -> None:
    logger = make_logger(directory, **options)
    if resumed:
        logger.truncate_after(2)
    logger.log_episodes(3, groups or [make_group()])
    logger.close()


class TestContract(LoggerContract):
    component = "astuner_loggers.otel.logger:OtelLogger"
    options: ClassVar[Mapping[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def _server(self, server: TraceServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.address)


def test_every_span_of_a_step_arrives_under_its_parent(server: TraceServer, tmp_path: Path) -> None:
    send(tmp_path, endpoint=server.address)
    spans = server.read_spans()
    roots = {span["id"]: span for span in spans.values() if span["parent"] is None}
    assert sorted(span["attributes"]["astuner.episode"] for span in roots.values()) == [f"train/3/sum/{n}" for n in range(3)]
    assert len(spans) == 12
    assert [span for span in spans.values() if span["parent"] and roots[span["parent"]]["trace"] != span["trace"]] == []


def test_status_and_kind_and_resource_are_those_of_the_protocol(server: TraceServer, tmp_path: Path) -> None:
    send(tmp_path, endpoint=server.address)
    spans = list(server.read_spans().values())
    by_episode = {span["attributes"].get("astuner.episode"): span for span in spans}
    assert [by_episode[f"train/3/sum/{n}"]["status"] for n in (0, 2)] == [(1, ""), (2, "timeout: it took over 60 s")]
    assert {span["name"].split()[0]: span["kind"] for span in spans} == {"chat": 3, "invoke_agent": 1, "execute_tool": 1}
    assert spans[0]["resource"]["service.name"] == spans[0]["resource"]["openinference.project.name"] == "project"
    assert by_episode["train/3/sum/0"]["end"] - by_episode["train/3/sum/0"]["start"] == 2_000_000_000


def test_requests_are_protobuf_and_never_compressed(server: TraceServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    send(tmp_path, endpoint=server.address)
    (posted,) = server.posted
    assert (posted.path, posted.headers["content-type"]) == ("/v1/traces", "application/x-protobuf")
    assert "content-encoding" not in posted.headers
    assert server.read_spans()


def test_a_resumed_run_sends_an_episode_under_the_same_ids_and_times(server: TraceServer, tmp_path: Path) -> None:
    send(tmp_path, endpoint=server.address)
    send(tmp_path, endpoint=server.address, resumed=True)
    first, second = server.posted
    assert first.body == second.body


def test_a_new_run_in_the_same_directory_has_other_ids(server: TraceServer, tmp_path: Path) -> None:
    send(tmp_path, endpoint=server.address)
    send(tmp_path, endpoint=server.address)
    assert len(server.read_spans()) == 24
    assert len({span["attributes"]["gen_ai.conversation.id"] for span in server.read_spans().values()}) == 2


def test_what_is_large_is_split_into_requests_that_are_small_enough(server: TraceServer, tmp_path: Path) -> None:
    send(tmp_path, make_group(*(make_episode(n, query="x" * 20_000) for n in range(9))), endpoint=server.address, most_mb=0.2)
    assert len(server.posted) > 1
    assert max(len(posted.body) for posted in server.posted) <= 200_000
    assert len(server.read_spans()) == 36
    assert not any("astuner.shortened" in span["attributes"] for span in server.read_spans().values())


def test_texts_of_a_span_that_fits_no_request_are_cut_with_a_notice(server: TraceServer, tmp_path: Path) -> None:
    send(tmp_path, make_group(make_episode(query="x" * 300_000)), endpoint=server.address, most_mb=0.1)
    assert max(len(posted.body) for posted in server.posted) <= 100_000
    cut = [span for span in server.read_spans().values() if "texts over" in span["attributes"].get("astuner.shortened", "")]
    assert sorted(span["name"] for span in cut) == ["chat model", "invoke_agent solver"]
    assert [span for span in cut if "[... 280,001 characters ...]" not in str(span["attributes"])] == []


def test_a_conversation_of_very_many_messages_is_left_out_rather_than_lost(server: TraceServer, tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "x" * 150}] * 2000
    group = make_group(make_episode(calls=[make_call(0, messages, {"role": "assistant", "content": "!"})]))
    send(tmp_path, group, endpoint=server.address, most_mb=0.1)
    assert {span["name"] for span in server.read_spans().values()} == {"chat model", "invoke_agent solver"}


def test_headers_are_the_options_and_those_of_opentelemetrys_variable(
    server: TraceServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=blue")
    send(tmp_path, endpoint=server.address, headers={"Authorization": "Bearer 1"})
    (posted,) = server.posted
    assert (posted.headers["authorization"], posted.headers["x-team"]) == ("Bearer 1", "blue")


@pytest.mark.parametrize("given", ["", "/", "/v1/traces", "/v1/traces/"])
def test_the_path_of_traces_is_added_where_it_is_missing(given: str, server: TraceServer, tmp_path: Path) -> None:
    send(tmp_path, endpoint=server.address + given)
    assert [posted.path.rstrip("/") for posted in server.posted] == ["/v1/traces"]


def test_a_path_of_a_server_is_kept(server: TraceServer, tmp_path: Path) -> None:
    send(tmp_path, endpoint=f"{server.address}/api/public/otel")
    assert [posted.path for posted in server.posted] == ["/api/public/otel/v1/traces"]


def test_opentelemetrys_variables_name_the_server_where_the_options_do_not(
    server: TraceServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"{server.address}/base")
    send(tmp_path)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{server.address}/exact")
    send(tmp_path)
    assert [posted.path for posted in server.posted] == ["/base/v1/traces", "/exact"]


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("http://me:secret@host", "must not hold a password"),
        ("http://host/v1/traces?api_key=1", "must not hold a password"),
        ("grpc://host:4317", "must be http"),
        ("localhost:4318", "must be http"),
        ("http://host:port", "is not an address"),
    ],
)
def test_an_address_that_cannot_or_must_not_be_used_is_refused(
    address: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match=f"'endpoint' {problem}"):
        OtelLogger.Options(endpoint=address)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", address)
    with pytest.raises(PluginError, match=f"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT {problem}"):
        make_logger(tmp_path)


def test_a_header_of_two_lines_is_refused() -> None:
    with pytest.raises(ValueError, match="must be one line"):
        OtelLogger.Options(headers={"X-Key": "a\r\nEvil: b"})


def answer_with(answer: Answer) -> Any:
    return lambda _: answer


def serialize_rejection(count: int) -> bytes:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTracePartialSuccess, ExportTraceServiceResponse

    partial = ExportTracePartialSuccess(rejected_spans=count, error_message="too old")
    return ExportTraceServiceResponse(partial_success=partial).SerializeToString()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(status=401, body=b'{"message":"no such key"}'), "no such key"),
        (Answer(status=404), "404 Not Found"),
        (Answer(status=302, headers={"Location": "http://host/login?token=1"}), "302: redirects to http://host/login$"),
    ],
    ids=["unauthorized", "not found", "redirect"],
)
def test_a_server_that_refuses_costs_its_episodes_and_says_why(answer: Answer, reason: str, tmp_path: Path) -> None:
    with serve(answer_with(answer)) as server, pytest.raises(PluginError, match=f"3 of 3 episodes did not arrive: .*{reason}"):
        send(tmp_path, endpoint=server.address)


def test_spans_that_a_server_rejects_are_counted(tmp_path: Path) -> None:
    headers = {"Content-Type": "application/x-protobuf"}
    told = "3 of 3 episodes did not arrive: 2 spans rejected: too old"
    answer = Answer(body=serialize_rejection(2), headers=headers)
    with serve(answer_with(answer)) as server, pytest.raises(PluginError, match=told):
        send(tmp_path, endpoint=server.address)


def test_a_busy_server_is_tried_again(tmp_path: Path) -> None:
    answers = iter([Answer(status=503, headers={"Retry-After": "0"}), Answer(status=429, headers={"Retry-After": "0"})])
    with serve(lambda _: next(answers, Answer())) as server:
        send(tmp_path, endpoint=server.address)
        assert len(server.posted) == 3


def test_a_server_that_is_not_there_loses_episodes_and_is_not_waited_for(
    closed_port: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    logger = make_logger(tmp_path, endpoint=closed_port)
    logger.log_episodes(3, [make_group()])
    with pytest.raises(PluginError, match=r"3 of 3 episodes did not arrive: .*Connection refused"):
        logger.close()
    assert capfd.readouterr().err == ""


def test_a_loss_is_reported_in_the_run_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serve(answer_with(Answer(status=400))) as server:
        logger = make_logger(tmp_path, endpoint=server.address)
        for step in range(3, 9):
            logger.log_episodes(step, [make_group()])
            server.requests_under_way.acquire(timeout=PATIENCE_S)
        with pytest.raises(PluginError, match="18 of 18 episodes"):
            logger.close()
    assert [record.message.split(":")[0] for record in caplog.records] == ["logger 'otel'"]


def test_a_server_that_takes_its_time_does_not_hold_up_the_run(tmp_path: Path) -> None:
    silence = threading.Event()

    def stay_silent(_: Posted) -> Answer:
        silence.wait(PATIENCE_S)
        return Answer()

    with serve(stay_silent) as server:
        logger = make_logger(tmp_path, endpoint=server.address)
        logger.log_episodes(0, [make_group()])
        server.requests_under_way.acquire(timeout=PATIENCE_S)
        for step in range(1, MOST_WAITING + 3):
            logger.log_episodes(step, [make_group()])
        silence.set()
        with pytest.raises(PluginError, match=f"6 of {3 * (MOST_WAITING + 3)} episodes did not arrive: it is too slow"):
            logger.close()


def test_an_interrupted_run_gives_a_silent_server_little_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silence = threading.Event()
    monkeypatch.setattr(otel_logger, "INTERRUPTED_WAIT_S", 0.1)
    with serve(lambda _: Answer(status=200 if silence.wait(PATIENCE_S) else 500)) as server:
        logger = make_logger(tmp_path, endpoint=server.address)
        logger.log_episodes(3, [make_group()])
        logger.astuner_run_finished(exit_code=130)
        with pytest.raises(PluginError, match=r"3 of 3 episodes did not arrive: it did not take them within"):
            logger.close()
        silence.set()


def test_an_episode_that_cannot_be_drawn_up_costs_no_other(server: TraceServer, tmp_path: Path) -> None:
    broken = make_episode(calls=[make_call(0, [{"role": "user", "content": "?"}], {"tool_calls": [None]})])
    with pytest.raises(PluginError, match="1 of 2 episodes did not arrive: episode train/3/sum/0 cannot be written as a trace"):
        send(tmp_path, make_group(broken, make_episode(1)), endpoint=server.address)
    assert len(server.read_spans()) == 4


def test_secrets_of_the_configuration_are_in_no_request(info: Any, server: TraceServer, group: Any) -> None:
    logger = OtelLogger.from_run(OtelLogger.Options(endpoint=server.address, timeout_s=PATIENCE_S), info)
    logger.log_episodes(1, [group([1.0])])
    logger.close()
    assert b"2 + 2? I am " in server.posted[0].body
    assert b"secret-of-the-agent-7" not in server.posted[0].body


def test_the_model_is_named_without_its_place(server: TraceServer, tmp_path: Path) -> None:
    plain = run_info(tmp_path)
    config = evolve(plain.config, model=evolve(plain.config.model, path="/home/me/models/tiny"))
    logger = OtelLogger.from_run(OtelLogger.Options(endpoint=server.address, timeout_s=PATIENCE_S), evolve(plain, config=config))
    logger.log_episodes(3, [make_group()])
    logger.close()
    assert {span["attributes"]["gen_ai.request.model"] for span in server.read_spans().values()} == {"tiny"}


def test_without_the_extra_the_command_that_installs_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otel_logger, "find_spec", lambda _: None)
    with pytest.raises(PluginError) as found:
        make_logger(tmp_path)
    assert install_command("astuner-loggers[otel]") in str(found.value)
