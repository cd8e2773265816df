from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kill_points import kill_before_each_change

from astuner.cli import exit_code_of
from astuner_local.quickstart import command
from astuner_local.tiny import maker, warm_start


@pytest.fixture
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_start, "MOST_STEPS", 2)
    monkeypatch.setattr(warm_start, "COOLDOWN_STEPS", 2)
    monkeypatch.setattr(maker, "ATTEMPTS", 1)


def test_the_command_is_imported_without_anything_heavy() -> None:
    code = (
        "import sys, astuner_local.quickstart.command\n"
        "print([name for name in ('torch', 'transformers', 'numpy', 'rich', 'openai') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_directory_that_holds_something_is_refused_and_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert exit_code_of(["quickstart", str(tmp_path)]) == 2
    assert "'notes.txt' is in the way" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.usefixtures("_short")
def test_no_run_writes_the_project_and_the_model_and_says_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "demo"
    assert exit_code_of(["quickstart", str(project), "--seed", "7", "--no-run"]) == 0
    assert {
        "README.md",
        "agent.py",
        "astuner.schema.json",
        "judge.py",
        "model",
        "system_prompt.txt",
        "tasks",
        "tune.yaml",
    } == {path.name for path in project.iterdir()}
    assert f"cd {project}\n  astuner run --conf tune.yaml --backbone local" in capsys.readouterr().out


@pytest.mark.usefixtures("_short")
def test_what_was_written_passes_the_check_of_configurations(tmp_path: Path) -> None:
    exit_code_of(["quickstart", str(tmp_path), "--no-run"])
    assert exit_code_of(["config", "validate", "--conf", str(tmp_path / "tune.yaml")]) == 0


def test_a_failure_leaves_an_empty_directory_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_start, "BATCH_SIZE", 0)
    with pytest.raises(ValueError, match="empty conversation"):
        exit_code_of(["quickstart", str(tmp_path), "--no-run"])
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_no_new_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_start, "BATCH_SIZE", 0)
    with pytest.raises(ValueError, match="empty conversation"):
        exit_code_of(["quickstart", str(tmp_path / "new"), "--no-run"])
    assert list(tmp_path.iterdir()) == []


def test_a_killed_quickstart_leaves_no_half_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_make_model", lambda out, seed: out.mkdir())
    place = tmp_path / "place"
    for killed in kill_before_each_change(lambda: exit_code_of(["quickstart", str(place / "demo"), "--no-run"]), place):
        assert not (place / "demo").exists() or (place / "demo" / "model").is_dir(), killed
        shutil.rmtree(place / "demo", ignore_errors=True)
    assert [path.name for path in place.iterdir()] == ["demo"]
