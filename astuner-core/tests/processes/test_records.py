"""What is written down about programs, and what else may lie there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from astuner.shared.processes import Lease, ProgramHandle, ProgramRecord, list_programs, register_run
from astuner.shared.processes.program_record import RecordFiles, read_record, records_directory, write_record

Start = Callable[..., ProgramHandle]
MINE = ProgramRecord(
    id="ab12", kind="run", name="mine", pid=os.getpid(), born=psutil.Process().create_time(), command=("x",), started="2026"
)
_texts = st.text(max_size=8)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=6,
)
_keys = st.sampled_from(["id", "kind", "name", "pid", "born", "command", "started", "lease", "facts", "port", "later"])


def test_a_program_is_listed_with_all_that_is_known(start: Start, tmp_path: Path) -> None:
    launched = start(port=81, url="http://x", directory=tmp_path, lease=Lease(idle_s=60), facts={"model": "tiny"})
    assert list_programs() == [launched.record]


def test_a_run_is_listed_while_it_lasts(tmp_path: Path) -> None:
    with register_run("mine", tmp_path):
        [record] = list_programs()
        assert (record.kind, record.name, record.pid, record.directory) == ("run", "mine", os.getpid(), str(tmp_path))
    assert list_programs() == []


def test_a_pid_that_was_given_away_again_is_not_ours() -> None:
    write_record(evolve(MINE, born=MINE.born - 100))
    assert list_programs() == []
    assert not RecordFiles.of(MINE.id).record.exists()


def test_the_record_of_a_dead_process_is_removed() -> None:
    write_record(evolve(MINE, pid=2**22 + 1))
    assert list_programs() == []
    assert not RecordFiles.of(MINE.id).record.exists()


def test_only_the_user_may_read_what_is_kept(start: Start, tmp_path: Path) -> None:
    before = os.umask(0)
    start()
    write_record(MINE)
    os.umask(before)
    kept = [records_directory(), *records_directory().iterdir()]
    assert RecordFiles.of(MINE.id).record in kept
    assert [str(path) for path in kept if path.stat().st_mode & 0o077] == []


def test_torn_and_foreign_files_are_passed_over_and_left_alone() -> None:
    write_record(MINE)
    base = records_directory()
    whole = RecordFiles.of(MINE.id).record.read_text()
    (base / "torn.json").write_text(whole[: len(whole) // 2])
    (base / "list.json").write_text("[1]")
    (base / "other.json").write_text(whole)
    (base / "notes.txt").write_text("mine")
    (base / "directory.json").mkdir()
    assert list_programs() == [MINE]
    assert {"torn.json", "list.json", "other.json", "notes.txt"} <= {path.name for path in base.iterdir()}


def test_a_key_of_a_later_version_is_passed_over() -> None:
    write_record(MINE)
    path = RecordFiles.of(MINE.id).record
    path.write_text(json.dumps({**json.loads(path.read_text()), "colour": "red"}))
    assert read_record(path) == MINE


@given(st.dictionaries(_keys, _json))
def test_no_content_of_a_file_raises(tmp_path_factory: pytest.TempPathFactory, content: dict[str, Any]) -> None:
    path = tmp_path_factory.getbasetemp() / "ab12.json"
    whole = {"id": "ab12", "kind": "run", "name": "n", "pid": 1, "born": 1.0, "command": [], "started": "t"}
    path.write_text(json.dumps({**whole, **content}))
    record = read_record(path)
    assert record is None or isinstance(record.pid, int)


@given(
    name=_texts,
    port=st.none() | st.integers(1, 65535),
    lease=st.none() | st.builds(Lease, idle_s=st.none() | st.floats(0, 1e6)),
    command=st.lists(_texts, max_size=3).map(tuple),
    facts=st.dictionaries(_texts, st.integers() | _texts, max_size=2),
)
def test_a_record_comes_back_as_it_was_written(tmp_path_factory: pytest.TempPathFactory, **fields: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASTUNER_STATE_DIR", str(tmp_path_factory.getbasetemp()))
        record = evolve(MINE, **fields)
        write_record(record)
        assert read_record(RecordFiles.of(record.id).record) == record


def test_a_state_directory_that_cannot_be_written_to_stops_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ASTUNER_STATE_DIR", str(tmp_path / "file"))
    with register_run("mine", tmp_path):
        assert "ASTUNER_STATE_DIR" in capsys.readouterr().err
