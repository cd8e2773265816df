"""What cannot be read is counted and named, and ends nothing that can."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner_devkit.command_line import CommandResult, run_command
from astuner_tracing import importing
from astuner_tracing.sources import otlp_file, phoenix_server
from astuner_tracing.writing import replace_file

Make = Callable[..., Any]


def imported(cwd: Path, *sources: object) -> CommandResult:
    return run_command("trace", "import", *sources, "--out", "tasks.jsonl", "--json", cwd=cwd)


def test_broken_lines_and_spans_are_counted_and_named(write: Make, asked: Make, span: Make):
    nameless = span(1, 1) | {"traceId": "short"}
    path = write("{'no': json}", asked(1, "A?"), "[1, 2]", nameless, {"resourceSpans": [{"scopeSpans": [{"spans": [5]}]}]})
    with path.open("a") as file:
        file.write('{"resourceSpans": [{"sco')
    counts = json.loads(imported(path.parent, "traces.jsonl").out)
    assert {broken["reason"].partition(":")[0]: broken["places"] for broken in counts["broken"]} == {
        "not valid JSON": ["traces.jsonl:1"],
        "neither an OTLP document (resourceSpans, resourceLogs) nor a span": ["traces.jsonl:3[0]", "traces.jsonl:3[1]"],
        "span 'invoke_agent friday' has no trace id and span id of OpenTelemetry": ["traces.jsonl:4 span 0"],
        "a span is an object, not '5'": ["traces.jsonl:5 span 0"],
        "not valid JSON (the line is not finished": ["traces.jsonl:6"],
    }
    assert counts["tasks"]["train"] == 1


def test_only_when_all_is_broken_it_is_an_error(write: Make):
    path = write("nonsense", "{}")
    done = imported(path.parent, "traces.jsonl")
    assert done.code == 2
    assert "traces.jsonl:1" in done.err
    assert not (path.parent / "tasks.jsonl").exists()


def test_turns_that_are_no_tasks_are_counted(write: Make, asked: Make, span: Make):
    image = asked(4, "x")
    content = [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, {"type": "image", "url": "x"}]}]
    image["attributes"][2]["value"]["stringValue"] = json.dumps(content)
    path = write(asked(1, "A?"), asked(2, "B?", None), asked(3, "C?", " "), image, span(5, 5, name="GET /"))
    counts = json.loads(imported(path.parent, path).out)
    assert counts["left_out"] == {"no answer": 2, "an image or file in the question": 1, "traces in which nothing was asked": 1}
    assert counts["tasks"]["train"] == 1


def test_no_task_at_all_is_an_error_and_leaves_an_earlier_file(write: Make, asked: Make):
    path = write(asked(1, "A?", None))
    (path.parent / "tasks.jsonl").write_text("earlier")
    done = imported(path.parent, path)
    assert done.code == 2
    assert "1: no answer" in done.err
    assert (path.parent / "tasks.jsonl").read_text() == "earlier"


def test_unanswered_turns_are_kept_when_asked_for(write: Make, asked: Make):
    path = write(asked(1, "A?", None))
    assert run_command("trace", "import", path, "--keep-unanswered", "--out", "tasks.jsonl", cwd=path.parent).code == 0
    assert "answer" not in json.loads((path.parent / "tasks.jsonl").read_text())["metadata"]


def test_spans_that_came_twice_are_one(write: Make, asked: Make):
    path = write(asked(1, "A?"), asked(1, "A?"))
    counts = json.loads(imported(path.parent, path, path).out)
    assert (counts["repeated_spans"], counts["tasks"]["train"]) == (3, 1)


def test_a_packed_file_and_one_over_several_lines_are_read(write: Make, asked: Make, tmp_path: Path):
    (tmp_path / "packed.jsonl.gz").write_bytes(gzip.compress(write(asked(1, "A?")).read_bytes()))
    document = {"resourceSpans": [{"scopeSpans": [{"spans": [asked(2, "B?")]}]}]}
    (tmp_path / "indented.json").write_text(json.dumps(document, indent=2))
    counts = json.loads(imported(tmp_path, "packed.jsonl.gz", "indented.json").out)
    assert counts["tasks"]["train"] == 2


def test_a_packed_file_that_is_cut_off_is_named(write: Make, asked: Make, tmp_path: Path):
    (tmp_path / "packed.gz").write_bytes(gzip.compress(write(asked(1, "A?")).read_bytes())[:-20])
    done = imported(tmp_path, "packed.gz")
    assert done.code == 2
    assert "packed.gz" in done.err


def test_what_is_whole_of_a_packed_file_that_is_cut_off_is_read(write: Make, asked: Make, tmp_path: Path):
    whole = gzip.compress(write(asked(1, "A?")).read_bytes(), mtime=0)
    (tmp_path / "packed.gz").write_bytes(whole + gzip.compress(write(asked(2, "B?")).read_bytes())[:-20])
    counts = json.loads(imported(tmp_path, "packed.gz").out)
    assert counts["tasks"]["train"] == 1
    assert [broken["places"] for broken in counts["broken"]] == [["packed.gz:2"]]


def test_a_line_beyond_all_measure_is_passed_over(write: Make, asked: Make, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(otlp_file, "LONGEST_LINE", 2000)
    path = write("x" * 5000, asked(1, "A?"))
    counts = json.loads(imported(path.parent, path).out)
    assert (len(counts["broken"]), counts["tasks"]["train"]) == (1, 1)


def test_spans_of_the_console_exporter_are_read(tmp_path: Path):
    told = {
        "name": "chat",
        "context": {"trace_id": "0x" + "1" * 32, "span_id": "0x" + "2" * 16, "trace_state": "[]"},
        "kind": "SpanKind.INTERNAL",
        "parent_id": None,
        "start_time": "2026-11-20T09:41:16.858897Z",
        "end_time": "2026-11-20T09:41:17.858897Z",
        "status": {"status_code": "UNSET"},
        "attributes": {"gen_ai.operation.name": "chat", "gen_ai.prompt": "A?", "gen_ai.completion": "B."},
        "events": [],
    }
    (tmp_path / "spans.jsonl").write_text(json.dumps(told) + "\n")
    assert imported(tmp_path, "spans.jsonl").code == 0
    row = json.loads((tmp_path / "tasks.jsonl").read_text())
    assert (row["main_query"], row["metadata"]["answer"]) == ("A?", "B.")
    assert row["metadata"]["trace"]["time"] == "2026-11-20T09:41:16.858+00:00"


def test_sources_that_are_none(tmp_path: Path):
    with sqlite3.connect(tmp_path / "other.db") as database:
        database.execute("CREATE TABLE films (name)")
    database.close()
    (tmp_path / "cut.db").write_bytes((tmp_path / "other.db").read_bytes()[:200])
    (tmp_path / "folder").mkdir()
    for source, said in {
        "missing.jsonl": "does not exist",
        "none*.jsonl": "no file matches it",
        "folder": "is a directory",
        "other.db": "it has: films",
        "cut.db": "cut.db",
    }.items():
        done = imported(tmp_path, source)
        assert (done.code, said in done.err) == (2, True), done.err


def test_a_project_that_phoenix_does_not_have(recorded: Path, phoenix: str, tmp_path: Path):
    for source in (recorded / "phoenix_20.26.1.db", phoenix):
        done = run_command("trace", "import", source, "--project=other", "--out=t.jsonl", cwd=tmp_path)
        assert done.code == 2
        assert "no project 'other'; there are: default" in done.err


def test_rows_of_a_studio_that_are_broken(new_studio: Make, tmp_path: Path):
    new_studio(tmp_path / "studio.sqlite")
    with sqlite3.connect(tmp_path / "studio.sqlite") as database:
        database.execute("UPDATE span_table SET attributes = '{broken' WHERE id = 's3'")
    database.close()
    counts = json.loads(imported(tmp_path, "studio.sqlite").out)
    assert [broken["places"] for broken in counts["broken"]] == [["studio.sqlite span_table row 3"]]
    assert counts["tasks"]["train"] == 1


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (401, {}, "PHOENIX_API_KEY"),
        (500, {}, "it answered 500"),
        (200, "<html>", "did not answer JSON"),
        (200, {"other": 1}, "is this the address of a Phoenix?"),
        (400, {"detail": "bad"}, "answered 400"),
    ],
)
def test_a_server_that_is_no_phoenix(
    serve: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, body: Any, said: str
):
    monkeypatch.setattr(phoenix_server, "FIRST_PAUSE_S", 0.01)
    done = imported(tmp_path, serve(lambda *_: (status, body)).url)
    assert done.code == 2
    assert said in done.err


def test_a_server_that_is_not_there_and_the_key_that_is_sent(serve: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(phoenix_server, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setenv("PHOENIX_API_KEY", "s3cret")
    assert "is it running there?" in imported(tmp_path, "http://127.0.0.1:9").err
    sent: list[str] = []

    def answer(method: str, path: str, query: Any, headers: Any, body: bytes) -> tuple[int, Any]:
        sent.append(headers["authorization"])
        return 403, {"detail": "s3cret is no key"}

    done = imported(tmp_path, serve(answer).url)
    assert sent == ["Bearer s3cret"]
    assert "s3cret" not in done.err


def test_one_odd_value_ends_nothing(write: Make, asked: Make, span: Make, tmp_path: Path):
    half = asked(1, "A?", conversation="half \ud800 a pair")
    said = {"gen_ai.evaluation.name": "n", "gen_ai.conversation.id": "half \ud800 a pair", "gen_ai.evaluation.score.value": "1"}
    pairs = [{"key": key, "value": {"stringValue": value}} for key, value in {**said, "annotator": "human"}.items()]
    record = {"eventName": "gen_ai.evaluation.result", "attributes": pairs}
    odd = [
        {"role": "assistant", "content": "", "tool_calls": 5},
        {"role": "assistant", "content": "", "tool_calls": [{"tool_call": "calc"}]},
        {"type": ["text"], "text": "x"},
        {"role": "user", "content": "B?"},
    ]
    calls = span(2, 2, name="chat", attributes={"gen_ai.input.messages": json.dumps(odd), "gen_ai.completion": "fine"})
    parts = asked(3, "C?")
    parts["attributes"][2]["value"]["stringValue"] = json.dumps([{"type": {}, "content": "C?"}])
    path = write(half, calls, parts, {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}, asked(4, "D?"))
    done = imported(tmp_path, path)
    assert done.code == 0, done.err
    rows = {row["main_query"]: row for row in map(json.loads, (tmp_path / "tasks.jsonl").read_text().splitlines())}
    assert rows.keys() >= {"A?", "B?", "D?"}
    assert rows["A?"]["metadata"]["reward"] == 1.0


def test_a_trace_that_breaks_the_reading_is_counted_and_the_others_are_read(
    write: Make, asked: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    read = importing.find_turns

    def stumbles(spans: Any, agents: Any) -> Any:
        if spans[0].trace_id == f"{1:032x}":
            raise KeyError("unforeseen")
        return read(spans, agents)

    monkeypatch.setattr(importing, "find_turns", stumbles)
    counts = json.loads(imported(tmp_path, write(asked(1, "A?"), asked(2, "B?"))).out)
    assert counts["tasks"]["train"] == 1
    assert counts["broken"] == [
        {"reason": "in a shape that is not understood (KeyError)", "count": 1, "places": [f"trace {1:032x}"]}
    ]


def test_times_of_a_studio_that_are_none(new_studio: Make, tmp_path: Path):
    new_studio(tmp_path / "studio.sqlite")
    with sqlite3.connect(tmp_path / "studio.sqlite") as database:
        database.execute("UPDATE span_table SET startTimeUnixNano = 'inf', endTimeUnixNano = '1e300'")
    database.close()
    assert json.loads(imported(tmp_path, "studio.sqlite").out)["tasks"]["train"] == 2


@pytest.mark.parametrize("out", ["traces.jsonl", "./traces.jsonl", "linked.jsonl"])
def test_a_source_is_not_written_over(write: Make, asked: Make, tmp_path: Path, out: str):
    path = write(asked(1, "A?"))
    (tmp_path / "linked.jsonl").hardlink_to(path)
    before = path.read_bytes()
    done = run_command("trace", "import", "traces.jsonl", "--out", out, cwd=tmp_path)
    assert (done.code, "is one of the sources" in done.err) == (2, True)
    assert path.read_bytes() == before


def test_two_data_sets_need_two_files(write: Make, asked: Make, tmp_path: Path):
    write(asked(1, "A?"))
    both = ("--out", "t.jsonl", "--validation-out", "../" + tmp_path.name + "/t.jsonl", "--validation-fraction=0.5")
    done = run_command("trace", "import", "traces.jsonl", *both, cwd=tmp_path)
    assert (done.code, "two data sets" in done.err) == (2, True)
    assert not (tmp_path / "t.jsonl").exists()


def test_two_that_write_into_one_place_write_into_files_of_their_own(tmp_path: Path):
    path = tmp_path / "tasks.jsonl"
    with replace_file(path) as one, replace_file(path) as other:
        one.add({"who": "one"})
        other.add({"who": "other"})
    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"who": "one"}]
    assert [file.name for file in tmp_path.iterdir()] == ["tasks.jsonl"]


def test_a_file_that_a_collector_begins_meanwhile_is_read_too(
    write: Make, asked: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = write(asked(1, "A?"))
    records = otlp_file.OtlpFile.records
    rotations = iter([2])

    def rotated_after(self: otlp_file.OtlpFile) -> Any:
        yield from records(self)
        for number in rotations:
            path.rename(tmp_path / "traces.0001.jsonl")
            write(asked(number, "B?"))

    monkeypatch.setattr(otlp_file.OtlpFile, "records", rotated_after)
    counts = json.loads(imported(tmp_path, "traces*.jsonl").out)
    assert (counts["tasks"]["train"], counts["repeated_spans"]) == (2, 0)
