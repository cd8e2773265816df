"""A judge that somebody else published: built into a wheel, installed offline, found, run, and blamed when it raises."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from harness import Cli
from runs_on_disk import record

PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "acme-judges"
version = "1.2.0"
dependencies = ["astuner-core>=0.2,<0.3"]

[project.entry-points."astuner.judges"]
strict = "acme_judges.strict:Strict"
"""

STRICT = '''
"""A judge with an option, which raises when the answer is not where it expects it."""

from attrs import frozen


class Strict:
    @frozen(kw_only=True)
    class Options:
        field: str = "answer"
        """Where the right answer stands."""

    def __init__(self, options):
        self.field = options.field

    def compute_reward(self, workflow_task, workflow_output):
        right = workflow_task.task.metadata[self.field] in workflow_output.metadata["final_answer"]
        return float(right), right
'''


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the wheel installed into it."""
    home = tmp_path_factory.mktemp("acme")
    source = home / "src" / "acme_judges"
    source.mkdir(parents=True)
    (home / "pyproject.toml").write_text(PYPROJECT)
    (source / "__init__.py").write_text("")
    (source / "strict.py").write_text(STRICT)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(home / "dist"), str(home)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = (home / "dist").glob("*.whl")
    site = home / "site"
    install = [sys.executable, "-m", "uv", "pip", "install", "--no-index", "--no-deps", "--target", str(site), str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    return site


def debug(cli: Cli, project: Path, installed: Path, *more: str):
    arguments = ["--backbone=debug", "--set=task_judge.judge_type=strict", "--set=debug.debug_first_n_tasks=1"]
    return cli("run", "--conf", "tune.yaml", *arguments, *more, cwd=project, env={"PYTHONPATH": str(installed)})


def test_it_is_listed_with_distribution_and_version(cli: Cli, installed: Path, tmp_path: Path):
    listed = cli("plugin", "list", "--json", cwd=tmp_path, env={"PYTHONPATH": str(installed)})
    rows = [row for row in json.loads(listed.stdout) if row["name"] == "strict"]
    assert [(row["kind"], row["dist"], row["version"]) for row in rows] == [("judge", "acme-judges", "1.2.0")]


def test_it_judges_a_run_and_is_written_down(cli: Cli, project: Path, installed: Path):
    finished = debug(cli, project, installed)
    assert finished.returncode == 0, finished.stderr
    used = json.loads((record(project, "calculator.debug") / "run.json").read_text())["plugins"]
    assert {"kind": "judge", "name": "strict", "distribution": "acme-judges", "version": "1.2.0"} in used
    assert "reward 0" in finished.stderr or "reward 1" in finished.stderr


def test_it_is_blamed_when_it_raises(cli: Cli, project: Path, installed: Path):
    failed = debug(cli, project, installed, "--set=task_judge.strict.field=solution")
    assert failed.returncode == 1
    assert "judge 'strict' from acme-judges 1.2.0 (acme_judges.strict:Strict)" in failed.stderr
    assert "KeyError: 'solution'" in failed.stderr
    assert "failure_budget" in failed.stderr


def test_a_wrong_option_is_named_before_anything_starts(cli: Cli, project: Path, installed: Path):
    refused = debug(cli, project, installed, "--set=task_judge.strict.feild=answer")
    assert refused.returncode == 2
    assert "task_judge.strict.feild" in refused.stderr
    assert "Did you mean 'field'?" in refused.stderr
    assert not record(project, "calculator.debug").exists()
