"""Links, pipes, devices and directories in the places of a run's files: named, never written through and never waited for."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from astuner.contract.errors import RunFailed, UsageError
from astuner.runs.inspection.run import Run
from astuner.runs.inspection.run_search import list_run_paths
from astuner.runs.store.atomic import write_text
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.manifest import find_damage, write_manifest
from astuner.shared.private_files import open_private, open_stored

FILES = ("run.json", "state.json", "config.yaml", "metrics.jsonl", "lock", "episodes/train.jsonl", "episodes/validation.jsonl")
FOLDERS = ("episodes", "episodes/signal", "checkpoints", "logs", "tokenizer")
STRANGERS: dict[str, Callable[[Path, Path], object]] = {
    "a link": lambda path, other: path.symlink_to(other),
    "a pipe": lambda path, other: os.mkfifo(path),
    "a directory": lambda path, other: path.mkdir(),
    "a device": lambda path, other: path.symlink_to("/dev/zero"),
    "a pipe behind a link": lambda path, other: (os.mkfifo(other.with_name("pipe")), path.symlink_to(other.with_name("pipe"))),
    "a link that leads to itself": lambda path, other: path.symlink_to(path),
    "a link to nothing": lambda path, other: path.symlink_to(other.with_name("nothing")),
}
COMMANDS = (
    ("episodes", "{}"),
    ("episodes", "{}", "--split", "validation"),
    ("compare", "{}", "other"),
)
LIMIT_S = 120.0
"""For all commands of one kind: one that waits takes forever."""
PLAY = """
import contextlib, importlib.metadata, io, json, os, sys
from astuner.cli import exit_code_of

def play(command):
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        return [command, exit_code_of(command), said.getvalue()]

commands, user = json.loads(sys.argv[1]), int(sys.argv[2])
if user:
    # Another user may be able neither to import nor to read what is installed.
    installed = importlib.metadata.entry_points()
    importlib.metadata.entry_points = lambda **wanted: installed.select(**wanted)
    for command in commands:
        play([word.replace("mine", "other") for word in command])
    os.setgroups([]); os.setgid(user); os.setuid(user)
for command in commands:
    print(json.dumps(play(command)), flush=True)
"""


def put(kind: str, path: Path, outside: Path) -> None:
    """Put something else in the place of a file or directory of a run."""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    STRANGERS[kind](path, outside)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").write_text("precious\n")
    (tmp_path / "outside" / "precious").chmod(0o644)
    return tmp_path / "outside" / "precious"


def play(commands: Sequence[Sequence[str]], where: Path, user: int = 0) -> list[tuple[list[str], int, str]]:
    """Run commands in one process that may not take forever; return each with its exit code and what it said."""
    asked = [sys.executable, "-c", PLAY, json.dumps(commands), str(user)]
    done = subprocess.run(asked, cwd=where, text=True, capture_output=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


@pytest.fixture
def damaged(write_run, stored, outside, tmp_path) -> Callable[[str], list[str]]:
    """Make a run for each place, with one kind of stranger there; return their names."""

    def make(kind: str) -> list[str]:
        write_run("other", episodes=stored)
        for number, place in enumerate((*FILES, *FOLDERS)):
            path = write_run(f"run{number}", episodes=stored)
            outside.with_name("pipe").unlink(missing_ok=True)
            put(kind, path / place, outside)
        return [f"run{number}" for number in range(len((*FILES, *FOLDERS)))]

    return make


@pytest.mark.parametrize("kind", STRANGERS)
def test_no_command_waits_for_it_or_breaks(kind: str, damaged, outside: Path, tmp_path: Path) -> None:
    names = damaged(kind)
    rows = play([[word.replace("{}", name) for word in each] for name in names for each in COMMANDS], tmp_path)
    assert [(command, said) for command, _, said in rows if "Traceback" in said] == []
    assert {code for _, code, _ in rows} <= {0, 1, 2}
    # The others are still found.
    assert "other" in {path.name for path in list_run_paths(tmp_path / "launcher_record")}
    assert outside.read_text() == "precious\n"


@pytest.mark.parametrize("place", [*FILES, *FOLDERS])
@pytest.mark.parametrize("kind", STRANGERS)
def test_a_run_does_not_begin_over_it(kind: str, place: str, write_run, stored, outside: Path) -> None:
    if kind == "a directory" and place in FOLDERS:
        return
    path = write_run("mine", episodes=stored)
    put(kind, path / place, outside)
    found = "a link" if "link" in kind or kind == "a device" else kind
    with pytest.raises(UsageError, match=rf"mine/{place}: is {found}, and not a (file|directory) of the run"):
        RunDirectory(path).open()
    assert (outside.read_text(), outside.stat().st_mode & 0o777) == ("precious\n", 0o644)


def test_the_directory_of_a_run_may_be_a_link(write_run, stored, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path := write_run("mine", episodes=stored))
    directory = RunDirectory(tmp_path / "link")
    directory.open()
    directory.write_state(status="running")
    directory.close()
    assert json.loads((path / "state.json").read_text())["status"] == "running"


@pytest.mark.parametrize("kind", ["a pipe", "a directory", "a device", "a pipe behind a link"])
def test_a_run_with_it_is_refused_by_name(kind: str, write_run, outside: Path) -> None:
    path = write_run("mine")
    put(kind, path / "metrics.jsonl", outside)
    with pytest.raises(
        UsageError, match=rf"mine/metrics\.jsonl: is {kind.removesuffix(' behind a link')}( or a socket)?, and not"
    ):
        Run(path)


@pytest.mark.parametrize("kind", STRANGERS)
def test_nothing_is_written_through_it(kind: str, outside: Path, tmp_path: Path) -> None:
    put(kind, tmp_path / "state.json.part", outside)
    with pytest.raises(RunFailed, match=r"state\.json\.part: is a"):
        write_text(tmp_path / "state.json", "{}")
    with pytest.raises(OSError, match="is a"):
        open_private(tmp_path / "state.json.part", "ab")
    assert outside.read_text() == "precious\n"


@pytest.mark.parametrize("kind", ["a pipe", "a directory", "a device", "a pipe behind a link", "a link that leads to itself"])
def test_nothing_is_read_from_it(kind: str, outside: Path, tmp_path: Path) -> None:
    put(kind, tmp_path / "state.json", outside)
    with pytest.raises(OSError, match="is a"):
        open_stored(tmp_path / "state.json")


def test_a_link_to_a_file_is_read(outside: Path, tmp_path: Path) -> None:
    put("a link", tmp_path / "state.json", outside)
    with open_stored(tmp_path / "state.json") as file:
        assert file.read() == b"precious\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")
def test_a_run_of_somebody_else_is_named(write_run, stored, tmp_path: Path) -> None:
    write_run("mine", episodes=stored)
    write_run("other", episodes=stored)
    for path in (tmp_path, *tmp_path.parents):
        if path != Path("/"):
            path.chmod(path.stat().st_mode | 0o111)
    ((_, code, said),) = play((["episodes", "mine"],), tmp_path, user=65534)
    assert code == 2
    assert re.search("launcher_record/mine: cannot be read by this user", said), said


@pytest.mark.parametrize("name", ["manifest.json", "config.json", "model.safetensors"])
@pytest.mark.parametrize("has_manifest", [True, False], ids=["", "without a manifest"])
@pytest.mark.parametrize("kind", ["a pipe", "a directory", "a device", "a pipe behind a link"])
def test_a_checkpoint_with_it_is_damaged(kind: str, has_manifest: bool, name: str, outside: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "step_1"
    checkpoint.mkdir()
    (checkpoint / "config.json").write_text("{}")
    (checkpoint / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    if has_manifest:
        write_manifest(checkpoint)
    assert find_damage(checkpoint) == []
    put(kind, checkpoint / name, outside)
    if has_manifest or name == "manifest.json":
        (damage,) = find_damage(checkpoint)
        assert re.match(rf"{name}: .*(is {kind.removesuffix(' behind a link')}|damaged)", damage)
    else:
        # What is not listed is left out, and nothing waits for it.
        assert find_damage(checkpoint) == []
