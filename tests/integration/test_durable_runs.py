"""A run knows what it was made from, survives damage to its files and being moved, and can go back to a checkpoint."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from harness import SMALL, Cli, environment
from python_server import PythonServer
from runs_on_disk import metric_rows, record, times_generated, weights_digest

STEPS = 4
RUN = ("run", "--conf", "tune.yaml", *SMALL, "--set=trainer_common.save_freq=1")
RESUME = (*RUN, "--resume")


def copy_project(source: Path, target: Path) -> Path:
    shutil.copytree(source, target, symlinks=True)
    return target


@pytest.fixture(scope="module")
def project_of_module(quickstart: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("module") / "project"
    shutil.copytree(quickstart, home, ignore=shutil.ignore_patterns("model", "launcher_record"))
    (home / "model").symlink_to(quickstart / "model")
    return home


@pytest.fixture(scope="module")
def whole(project_of_module: Path, cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with an undisturbed run. Not to be written to."""
    home = copy_project(project_of_module, tmp_path_factory.mktemp("whole") / "project")
    finished = cli(*RUN, cwd=home)
    assert finished.returncode == 0, finished.stderr
    return home


@pytest.fixture(scope="module")
def killed(project_of_module: Path, python_server: PythonServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with a run that was killed in its third step, after two checkpoints. Not to be written to."""
    home = copy_project(project_of_module, tmp_path_factory.mktemp("killed") / "project")
    with (home / "log.txt").open("ab") as log:
        process = python_server.start(
            ["-m", "astuner", *RUN], cwd=home, env=environment(), output=(log, log), start_new_session=True
        )
    stored = record(home) / "episodes" / "train.jsonl"
    deadline = time.monotonic() + 120
    while not stored.exists() or stored.read_bytes().count(b'"kind":"episode"') < 29:
        assert process.poll() is None and time.monotonic() < deadline, (home / "log.txt").read_text()  # noqa: PT018
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return home


@pytest.fixture
def broken(killed: Path, tmp_path: Path) -> Path:
    """A copy of the killed run."""
    return copy_project(killed, tmp_path / "project")


def is_like(run: Path, whole: Path) -> bool:
    return weights_digest(run, STEPS) == weights_digest(record(whole), STEPS) and metric_rows(run) == metric_rows(record(whole))


def flip(path: Path, at: float = 0.5) -> None:
    content = bytearray(path.read_bytes())
    content[int(len(content) * at)] ^= 0x41
    path.write_bytes(content)


def last_checkpoint(home: Path) -> Path:
    return max((record(home) / "checkpoints").glob("step_*"), key=lambda path: int(path.name.removeprefix("step_")))


def flat(text: str) -> str:
    return " ".join(text.split())


def test_a_project_that_was_moved_goes_on_to_the_same_weights(broken: Path, whole: Path, cli: Cli, tmp_path: Path):
    moved = tmp_path / "elsewhere" / "project"
    moved.parent.mkdir()
    broken.rename(moved)
    resumed = cli(*RESUME, cwd=moved)
    assert resumed.returncode == 0, resumed.stderr
    assert is_like(record(moved), whole)
    assert set(times_generated(record(moved)).values()) == {1}


def test_adapters_move_with_the_base_in_their_project(quickstart: Path, cli: Cli, tmp_path: Path):
    home = tmp_path / "project"
    shutil.copytree(quickstart, home, ignore=shutil.ignore_patterns("launcher_record"))
    lora = ("--set=model.lora_rank=4", "--set=trainer_common.optim.lr=0.01", "--set=trainer_common.val_before_train=false")
    undisturbed = cli(*RUN, *lora, "--set=experiment_name=whole", cwd=home)
    assert undisturbed.returncode == 0, undisturbed.stderr
    assert cli(*RUN, *lora, "--set=trainer_common.total_training_steps=2", cwd=home).returncode == 0
    moved = home.rename(tmp_path / "moved")
    resumed = cli(*RESUME, *lora, cwd=moved)
    assert resumed.returncode == 0, resumed.stderr
    assert weights_digest(record(moved), STEPS) == weights_digest(record(moved, "whole"), STEPS)
    merged = cli("export", record(moved, "whole"), "--merge-lora", "--out", tmp_path / "merged", cwd=tmp_path)
    assert merged.returncode == 0, merged.stderr
    assert not (tmp_path / "merged" / "manifest.json").exists()


def test_other_tasks_are_refused_with_the_file_and_the_way_on_and_can_be_accepted(broken: Path, cli: Cli):
    tasks = broken / "tasks" / "train.jsonl"
    tasks.write_text("\n".join(reversed(tasks.read_text().splitlines())) + "\n")
    refused = cli(*RESUME, cwd=broken)
    assert refused.returncode == 2
    said = flat(refused.stderr)
    for part in ("tasks/train.jsonl changed (", "the same in another order", "--accept-changes data"):
        assert part in said
    accepted = cli(*RESUME, "--accept-changes=data", cwd=broken)
    assert accepted.returncode == 0, accepted.stderr
    assert "stored episodes after step 2 are not used, but played again" in flat(accepted.stderr)


def test_a_file_with_the_same_tasks_is_only_reported(broken: Path, whole: Path, cli: Cli):
    with (broken / "tasks" / "train.jsonl").open("a") as file:
        file.write("\n")
    resumed = cli(*RESUME, cwd=broken)
    assert resumed.returncode == 0, resumed.stderr
    assert "tasks/train.jsonl have another content than before, and the same tasks" in flat(resumed.stderr)
    assert is_like(record(broken), whole)


def test_changed_code_is_reported_and_episodes_are_played_again_on_request(broken: Path, killed: Path, whole: Path, cli: Cli):
    for home in (broken, again := copy_project(killed, broken.with_name("again"))):
        for name in ("agent.py", "judge.py"):
            with (home / name).open("a") as file:
                file.write("# changed\n")
    resumed = cli(*RESUME, cwd=broken)
    assert resumed.returncode == 0, resumed.stderr
    for part in ("code changed since the run was last started: agent.py changed (", "; judge.py changed ("):
        assert part in flat(resumed.stderr)
    assert is_like(record(broken), whole)
    assert set(times_generated(record(broken)).values()) == {1}
    replayed = cli(*RESUME, "--accept-changes=code", cwd=again)
    assert replayed.returncode == 0, replayed.stderr
    assert is_like(record(again), whole)
    assert set(times_generated(record(again)).values()) == {1, 2}


def test_another_model_is_refused(broken: Path, quickstart: Path, cli: Cli):
    (broken / "model").unlink()
    shutil.copytree(quickstart / "model", broken / "model")
    flip(broken / "model" / "model.safetensors")
    refused = cli(*RESUME, cwd=broken)
    assert refused.returncode == 2
    assert "the model: model.safetensors changed (" in flat(refused.stderr)
    assert "--accept-changes model" in flat(refused.stderr)


@pytest.mark.parametrize("file", ["model.safetensors", "trainer/trainer.safetensors", "config.json", "manifest.json"])
def test_the_checkpoint_before_a_damaged_one_is_taken_and_nothing_is_played_twice(broken: Path, whole: Path, cli: Cli, file: str):
    damaged = last_checkpoint(broken) / file
    flip(damaged)
    resumed = cli(*RESUME, cwd=broken)
    assert resumed.returncode == 0, resumed.stderr
    assert file in flat(resumed.stderr)
    assert "The run continues from step 1, the last one that is intact" in flat(resumed.stderr)
    assert is_like(record(broken), whole)
    assert set(times_generated(record(broken)).values()) == {1}
    assert not list((record(broken) / "checkpoints").glob("aside_*"))


def test_without_any_intact_checkpoint_everything_is_replayed(broken: Path, whole: Path, cli: Cli):
    for path in (record(broken) / "checkpoints").glob("step_*"):
        (path / "model.safetensors").write_bytes(b"")
    resumed = cli(*RESUME, cwd=broken)
    assert resumed.returncode == 0, resumed.stderr
    assert "from its start: no checkpoint is intact" in flat(resumed.stderr)
    assert is_like(record(broken), whole)
    assert set(times_generated(record(broken)).values()) == {1}


def test_a_damaged_checkpoint_is_not_exported_or_evaluated(broken: Path, cli: Cli, tmp_path: Path):
    flip(last_checkpoint(broken) / "model.safetensors")
    for command in (
        ("export", record(broken), "--out", tmp_path / "out"),
        ("eval", "--conf", "tune.yaml", "--backbone=local", "--checkpoint", last_checkpoint(broken)),
    ):
        refused = cli(*command, cwd=broken)
        assert refused.returncode == 1, refused.stderr
        assert "model.safetensors: damaged" in flat(refused.stderr)
        assert "Traceback" not in refused.stderr
    assert not (tmp_path / "out").exists()


def test_a_finished_run_goes_back_to_a_checkpoint_and_ends_the_same(whole: Path, cli: Cli, tmp_path: Path):
    home = copy_project(whole, tmp_path / "project")
    unknown = cli(*RUN, "--resume-from=9", cwd=home)
    assert (unknown.returncode, "no checkpoint '9'" in unknown.stderr) == (2, True)
    gone_back = cli(*RUN, "--resume-from=2", cwd=home)
    assert gone_back.returncode == 0, gone_back.stderr
    assert "the run goes back to step 2" in flat(gone_back.stderr)
    assert is_like(record(home), whole)
    assert set(times_generated(record(home)).values()) == {1}


@pytest.mark.parametrize("at", [0.9, 0.99])
def test_a_flipped_byte_in_the_store_costs_one_episode_and_no_bit_of_the_result(broken: Path, whole: Path, cli: Cli, at: float):
    flip(record(broken) / "episodes" / "train.jsonl", at)
    resumed = cli(*RESUME, cwd=broken)
    assert resumed.returncode == 0, resumed.stderr
    assert "is damaged and is left out" in flat(resumed.stderr)
    assert is_like(record(broken), whole)


def test_a_run_of_an_older_version_is_resumed(broken: Path, whole: Path, cli: Cli):
    run = record(broken)
    for name in ("state.json", "run.json"):
        facts = json.loads((run / name).read_text())
        (run / name).write_text(json.dumps({key: value for key, value in facts.items() if key not in ("checksum", "sources")}))
    for path in run.rglob("manifest.json"):
        path.unlink()
    stored = run / "episodes" / "train.jsonl"
    stored.write_bytes(b"".join(b"{" + line[18:] for line in stored.read_bytes().splitlines(keepends=True)))
    resumed = cli(*RESUME, cwd=broken)
    assert resumed.returncode == 0, resumed.stderr
    assert is_like(run, whole)


@pytest.mark.parametrize("file", ["state.json", "run.json", "config.yaml"])
def test_an_empty_record_is_named_and_deleting_it_helps(broken: Path, whole: Path, cli: Cli, file: str):
    path = record(broken) / file
    path.write_bytes(b"")
    refused = cli(*RESUME, cwd=broken)
    assert refused.returncode == 2
    assert file in refused.stderr
    assert "Traceback" not in refused.stderr
    path.unlink()
    resumed = cli(*RESUME, cwd=broken)
    assert resumed.returncode == 0, resumed.stderr
    assert is_like(record(broken), whole)
