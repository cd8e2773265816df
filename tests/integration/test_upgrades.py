"""Runs that earlier versions began are resumed by the present one, to the weights of an undisturbed run."""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Cli
from runs_on_disk import metric_rows, record, times_generated, weights_digest

STORED = Path(__file__).parent / "stored_runs"
RUNS = sorted(path.name.partition(".")[0] for path in STORED.glob("*.tar.xz"))
NAMED = {"4095c44fb": ("model.late_system_messages", "trainer_common.val_pass_n")}
"""Defaults that have changed since a commit, of keys that this project does not set."""
EARLIER_DEFAULTS = ("--set=model.late_system_messages=template", "--set=trainer_common.val_pass_n=4")

Unpack = Callable[[str], Path]


@pytest.fixture(scope="module")
def undisturbed(separate_cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the present version, which keeps both checkpoints."""
    project = tmp_path_factory.mktemp("undisturbed") / "project"
    shutil.copytree(STORED / "project", project)
    finished = separate_cli("run", "--conf", "tune.yaml", "--set=trainer_common.max_checkpoints_to_keep=2", cwd=project)
    assert finished.returncode == 0, finished.stderr
    return record(project, "stored")


@pytest.fixture
def unpack(tmp_path: Path) -> Unpack:
    """Put a stored run into the project, at a place where it was not made."""

    def unpack(commit: str) -> Path:
        shutil.copytree(STORED / "project", tmp_path / "project")
        with tarfile.open(STORED / f"{commit}.tar.xz") as packed:
            packed.extractall(tmp_path / "project", filter="data")
        return tmp_path / "project"

    return unpack


@pytest.fixture
def same_bits(undisturbed: Path, unpack: Unpack) -> None:
    """Other processors may add up in another order, so that not even step 2 has the stored weights."""
    stored = record(unpack(RUNS[0]), "stored")
    same = weights_digest(stored, 2) == weights_digest(undisturbed, 2)
    shutil.rmtree(stored.parents[1])
    if not same:
        pytest.skip("this processor computes other weights than that of the stored runs")


def check_end(run: Path, undisturbed: Path) -> None:
    assert weights_digest(run, 4) == weights_digest(undisturbed, 4)
    # Earlier versions had other metrics; steps 3 and 4 are of the present one.
    there, here = ([row for row in metric_rows(one) if row["step"] > 2 and row["kind"] == "train"] for one in (undisturbed, run))
    assert here == there
    assert set(times_generated(run).values()) == {1}


@pytest.mark.parametrize("commit", RUNS)
@pytest.mark.usefixtures("same_bits")
def test_a_run_of_an_earlier_commit_goes_on_to_the_same_weights(cli: Cli, unpack: Unpack, undisturbed: Path, commit: str) -> None:
    project = unpack(commit)
    kept = EARLIER_DEFAULTS if commit in NAMED else ()
    finished = cli("run", "--conf", "tune.yaml", "--resume", *kept, cwd=project)
    assert finished.returncode == 0, finished.stderr
    check_end(record(project, "stored"), undisturbed)


@pytest.mark.parametrize("commit", NAMED)
def test_defaults_that_changed_are_named_once_and_accepted(cli: Cli, unpack: Unpack, undisturbed: Path, commit: str) -> None:
    project = unpack(commit)
    refused = cli("run", "--conf", "tune.yaml", "--resume", cwd=project)
    assert refused.returncode == 2
    named = [line.split()[0] for line in refused.stderr.splitlines() if line.startswith("  astuner.")]
    assert named == [f"astuner.{key}:" for key in NAMED[commit]]
    accepted = cli("run", "--conf", "tune.yaml", "--resume", "--accept-changes", "defaults", cwd=project)
    assert accepted.returncode == 0, accepted.stderr
    assert "accepted: astuner.model.late_system_messages was 'template' when stored was started" in accepted.stderr
    run = record(project, "stored")
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["step_4"]
    longer = cli("run", "--conf", "tune.yaml", "--resume", "--set=trainer_common.total_training_steps=5", cwd=project)
    assert longer.returncode == 0, longer.stderr
    assert "accepted" not in longer.stderr
