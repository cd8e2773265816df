"""`docs/run_directory.md` describes every file that a run leaves and every metric that it writes, and no others."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zlib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from harness import REPOSITORY, SMALL, Cli
from runs_on_disk import record

from astuner.runs.inspection.metric_names import find_metric_name, list_metric_names
from astuner_devkit.project import write_project

DOCS = REPOSITORY / "docs"
PAGE = (DOCS / "run_directory.md").read_text(encoding="utf-8")
FILES = re.findall(r"`([^`]+)`", "".join(re.findall(r"^\| (`[^|]+) \|", PAGE.split("## Files")[1].split("##")[0], re.MULTILINE)))
KINDS = re.findall(r"^\| `(\w+)` \|", PAGE.split("## Episodes")[1].split("##")[0], re.MULTILINE)
STATES = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", PAGE.split("## Files")[0], re.MULTILINE)))


@pytest.fixture(scope="module")
def trained(quickstart: Path, tmp_path_factory: pytest.TempPathFactory, cli: Cli) -> Path:
    """A short run on `local` with validations, a checkpoint, filtered groups and the files of a logger."""
    home = tmp_path_factory.mktemp("documented") / "project"
    home.mkdir()
    for item in quickstart.iterdir():
        if item.name != "launcher_record":
            (home / item.name).symlink_to(item)
    more = ("--set=trainer_common.test_freq=2", "--set=trainer_common.total_training_steps=2", "--set=trainer_common.save_freq=1")
    filtering = ("--set=trainer_common.algorithm.filter_groups.enable=true", "--set=rollout.compute_madness_checklist=[nonsense]")
    loggers = "--set=trainer_common.logger=[console,tensorboard]"
    ran = cli("run", "--conf", "tune.yaml", *SMALL, *more, *filtering, loggers, cwd=home)
    assert ran.returncode == 0, ran.stderr
    return record(home)


@pytest.fixture(scope="module")
def debugged(tmp_path_factory: pytest.TempPathFactory, cli: Cli) -> Path:
    """A run on `debug` in which an episode fails and a judge fails."""
    home = tmp_path_factory.mktemp("debugged")
    (home / "judge.py").write_text(
        "class Judge:\n    def compute_reward(self, workflow_task, workflow_output):\n"
        "        if workflow_task.task.metadata['answer'] == '5':\n            raise ValueError('five')\n"
        "        return 0.5, False\n"
    )
    (home / "agent.py").write_text(
        "from astuner import Workflow, WorkflowOutput\n\n\nclass Agent(Workflow):\n"
        "    async def execute(self, workflow_task, tuner):\n"
        "        if workflow_task.task.metadata['answer'] == '6':\n            raise ValueError('six')\n"
        "        client = tuner.as_raw_openai_sdk_client()\n"
        "        await client.chat.completions.create(model='m', messages=[{'role': 'user', 'content': 'hi'}])\n"
        "        return WorkflowOutput(log_metrics={'turns': 1})\n"
    )
    tasks = [{"task_id": answer, "main_query": "q", "answer": answer} for answer in ("4", "5", "6")]
    settings = {"rollout": {"failure_budget": 1.0, "max_retries": 0}}
    conf = write_project(home, "./judge.py:Judge", workflow="./agent.py:Agent", tasks=tasks, settings=settings)
    ran = cli("run", "--conf", conf.name, cwd=home)
    assert ran.returncode == 0, ran.stderr
    return home / "launcher_record/project.debug"


@pytest.fixture(params=["trained", "debugged"])
def run_path(request: pytest.FixtureRequest) -> Path:
    found: Path = request.getfixturevalue(request.param)
    return found


def is_described(file: str) -> bool:
    patterns = (re.sub(r"N\b|NAME", "*", listed) for listed in FILES)
    return any(fnmatch(file, pattern) or (pattern.endswith("/") and fnmatch(file, f"{pattern}*")) for pattern in patterns)


def test_the_page_is_up_to_date():
    code = f"import sys; sys.path.insert(0, {str(DOCS)!r}); import write_run_directory as w; sys.stdout.write(w.document())"
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert made == PAGE, "run: python docs/write_run_directory.py"


def test_every_file_of_a_run_is_described(run_path: Path):
    files = [str(file.relative_to(run_path)) for file in sorted(run_path.rglob("*")) if file.is_file()]
    assert {"run.json", "metrics.jsonl", "episodes/train.jsonl"} <= set(files)
    assert [file for file in files if not is_described(file)] == []
    assert not is_described("other.json")


def test_every_metric_of_a_run_is_declared(run_path: Path):
    backbone = json.loads((run_path / "run.json").read_text())["backbone"]
    rows = [json.loads(line) for line in (run_path / "metrics.jsonl").read_text().splitlines()]
    names = {name for row in rows for name in row} - {"step", "kind"}
    assert "reward/mean" in names
    assert {name for name in names if find_metric_name(name) is None and not name.startswith(f"{backbone}/")} == set()


def test_every_record_is_of_a_described_kind_and_its_sum_is_as_described(run_path: Path):
    kinds = set()
    for line in (run_path / "episodes/train.jsonl").read_bytes().splitlines(keepends=True):
        found = json.loads(line)
        kinds.add(found["kind"])
        assert f"{zlib.crc32(line.partition(b',')[2]):08x}" == found["crc"]
    assert kinds == {"episode", "verdicts"}
    assert kinds <= set(KINDS)


def test_every_state_is_described():
    from typing import get_args

    from astuner.runs.inspection.run_state import Status

    assert set(STATES) == set(get_args(Status))


def test_a_name_has_the_meaning_of_its_closest_pattern():
    meant = {
        "reward/mean": "reward/mean",
        "reward/solver/mean": "reward/<agent>/mean",
        "reward/accuracy": "reward/<component>",
        "signal/lost/judge_error": "signal/lost/<reason>",
        "signal/lost/tokens_frozen_agent": "signal/lost/tokens_<reason>",
        "val/pass@4": "val/pass@<k>",
        "val/gsm8k/pass@4": "val/<source>/pass@<k>",
        "val/gsm8k/reward/mean": "val/<source>/reward/<component>",
    }
    found = {name: metric.name for name in meant if (metric := find_metric_name(name)) is not None}
    assert found == meant
    assert find_metric_name("acme/own") is None


def test_names_are_declared_once():
    names = [metric.name for metric in list_metric_names()]
    assert len(names) == len(set(names))


COMMANDS = [line.split() for line in re.findall(r"^astuner .*$", PAGE, re.MULTILINE)]


def test_the_commands_of_the_page_run(trained: Path, cli: Cli, tmp_path: Path):
    (tmp_path / "launcher_record").mkdir()
    for name in ("my-experiment", "second-experiment"):
        (tmp_path / "launcher_record" / name).symlink_to(trained)
    assert [command[1] for command in COMMANDS] == ["runs", "episodes", "compare"]
    for command in COMMANDS:
        # The page's run is longer than the test's.
        ran = cli(*(word if word != "20" else "2" for word in command[1:]), cwd=tmp_path)
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout
