"""A run on disk: what it does or how it ended, its metrics, and what is damaged. Looking changes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from astuner.contract.errors import UsageError
from astuner.runs.inspection.run import Run
from astuner.runs.inspection.run_search import list_run_paths, open_run
from astuner.runs.store.directory import RunDirectory

ROWS = [
    {"step": 0, "kind": "validation", "val/reward/mean": 0.25},
    {"step": 1, "kind": "train", "reward/mean": 0.5, "time/step_s": 2.0, "tokens/generated": 10.0},
    {"step": 2, "kind": "train", "reward/mean": 0.75, "time/step_s": 3.0, "tokens/generated": 20.0},
    {"step": 2, "kind": "validation", "val/reward/mean": 1.0},
    {"step": 3, "kind": "train", "reward/mean": None, "time/step_s": 1.0, "tokens/generated": 5.0},
]


def fingerprint(path: Path) -> dict[str, tuple[str, int]]:
    files = (file for file in sorted(path.rglob("*")) if file.is_file())
    return {str(file): (hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns) for file in files}


def test_nothing_is_changed_and_a_locked_run_is_read(write_run, stored):
    path = write_run(rows=ROWS, episodes=stored, status="running")
    directory = RunDirectory(path)
    directory.open()
    before = fingerprint(path)
    run = Run(path)
    assert run.state.status == "running"
    assert len(list(run.episodes())) == 6
    assert len(run.read_rows()) == 5
    assert fingerprint(path) == before
    directory.close()


@pytest.mark.parametrize("status", ["finished", "interrupted"])
def test_a_run_that_said_how_it_ended(write_run, status):
    assert Run(write_run(status=status)).state.status == status


def test_a_run_that_failed_says_why(write_run):
    path = write_run()
    RunDirectory(path).write_state(status="failed", reason="the disk is full")
    assert (Run(path).state.status, Run(path).state.detail) == ("failed", "the disk is full")


def end_a_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        return ended.pid


def test_a_run_whose_process_has_gone_was_killed(write_run):
    path = write_run(status="running")
    (path / "lock").write_text(str(end_a_process()))
    assert Run(path).state.status == "killed"


def test_another_process_with_the_same_number_is_not_the_run(write_run):
    path = write_run(status="running")
    (path / "lock").write_text(str(os.getpid()))
    # Before this process was born.
    os.utime(path / "lock", (1_000_000_000, 1_000_000_000))
    assert Run(path).state.status == "killed"


def test_a_run_without_a_state_is_starting_while_its_process_lives(write_run):
    assert Run(write_run(status=None)).state.status == "starting"


def test_the_process_of_another_machine_is_unknown(write_run):
    path = write_run(status="running")
    facts = json.loads((path / "run.json").read_text())
    facts.pop("checksum")
    facts["attempts"][-1]["host"] = "elsewhere"
    (path / "run.json").write_text(json.dumps(facts))
    state = Run(path).state
    assert (state.status, state.detail[:21]) == ("unknown", "started on elsewhere,")


def test_what_is_damaged_is_reported_once_and_the_rest_is_read(write_run, stored):
    path = write_run(rows=ROWS, episodes=stored)
    (path / "state.json").write_text("{")
    (path / "run.json").write_bytes(b"\xff")
    (path / "config.yaml").write_text("a: [")
    with (path / "metrics.jsonl").open("a") as file:
        file.write('[1]\n{"step": 4')
    said: list[str] = []
    run = Run(path, said.append)
    assert (run.state.status, len(run.read_rows())) == ("damaged", 5)
    assert len(list(run.episodes())) == 6
    assert not run.config
    assert not run.facts
    assert {Path(text.split(":")[0]).name for text in said} == {"metrics.jsonl", "state.json", "run.json", "config.yaml"}


def test_metrics_are_a_data_frame_where_pandas_is_installed(write_run):
    pandas = pytest.importorskip("pandas")
    frame = Run(write_run(rows=ROWS)).metrics
    assert isinstance(frame, pandas.DataFrame)
    assert frame.loc[frame.kind == "train", "tokens/generated"].tolist() == [10.0, 20.0, 5.0]


def test_metrics_are_dicts_without_pandas(write_run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert Run(write_run(rows=ROWS)).metrics == ROWS


def test_a_directory_that_is_not_a_run_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"elsewhere: not a run directory \(it has no run\.json\)"):
        Run(tmp_path / "elsewhere")


def test_runs_are_found_below_a_directory_and_by_name(write_run, tmp_path, monkeypatch):
    for name in ("a", "b", "sweep/c"):
        write_run(name)
    (tmp_path / "launcher_record/no_run").mkdir()
    (tmp_path / "launcher_record/no_run/circle").symlink_to(tmp_path)
    (tmp_path / "launcher_record/z").symlink_to(tmp_path / "launcher_record/a")
    monkeypatch.chdir(tmp_path)
    found = [path.relative_to("launcher_record") for path in list_run_paths(Path("launcher_record"))]
    assert list(map(str, found)) == ["a", "b", "sweep/c", "z"]
    assert open_run("sweep/c").path == Path("launcher_record/sweep/c")
    assert open_run(tmp_path / "launcher_record/a").name == "a"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("experiment-two", "no such run, .* Did you mean 'experiment-one'?"),
        ("zzz", "In launcher_record there are: experiment-one"),
        ("launcher_record", "launcher_record: not a run directory"),
    ],
)
def test_a_run_that_does_not_exist_is_named_with_those_that_do(write_run, tmp_path, monkeypatch, name, message):
    write_run("experiment-one")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=message):
        open_run(name)
