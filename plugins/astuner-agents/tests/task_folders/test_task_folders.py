"""The reader `harbor`: task folders of both formats, and what is wrong with one by file and key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from astuner.contract.errors import DataError
from astuner.contract.schema import Task
from astuner.settings.plugins.options import build_options
from astuner_agents.task_folders.reader import TaskFolderReader
from astuner_devkit.contracts import ReaderContract

TOML = """
version = "1.0"

[metadata]
author_name = "A"
difficulty = "easy"
created = 2026-01-31

[agent]
timeout_sec = 120

[verifier]
timeout_sec = 30.5
env = { LEVEL = "${LEVEL:-1}" }

[environment]
docker_image = "python:3.12-slim"
cpus = 2
memory = "2G"
storage_mb = 4096
allow_internet = false
future_key = 1
"""


def write_harbor(root: Path, name: str = "hello", toml: str = TOML, **files: str) -> Path:
    """Write a task folder; `files` replace its files, by the stem of their names."""
    folder = root / name
    for path, text in {
        "task.toml": toml,
        "instruction.md": files.get("instruction", f"Write {name}.\n"),
        "environment/Dockerfile": "FROM python:3.12-slim\nWORKDIR /app\n",
        "tests/test.sh": "echo 1 > /logs/verifier/reward.txt\n",
        "solution/solve.sh": "echo hello\n",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def write_terminal_bench(root: Path, name: str = "old", text: str = "instruction: |\n  Do it.\ndifficulty: hard\n") -> Path:
    folder = root / name
    (folder / "tests").mkdir(parents=True, exist_ok=True)
    for path, content in {
        "task.yaml": text,
        "Dockerfile": "FROM debian\n",
        "run-tests.sh": "true\n",
        "solution.sh": "true\n",
    }.items():
        (folder / path).write_text(content)
    return folder


def read(home: Path, **training: Any) -> list[Task]:
    options = build_options(TaskFolderReader, {"training": {"path": "tasks", **training}}, key="astuner.task_reader.harbor")
    return list(TaskFolderReader(options, home).read("train"))


class TestTaskFolders(ReaderContract):
    component = "astuner_agents.task_folders.reader:TaskFolderReader"
    splits = ("train", "validation")
    options: ClassVar[Mapping[str, Any]] = {
        "training": {"path": "tasks", "exclude": ["old"]},
        "validation": {"path": "tasks/old"},
    }

    def prepare(self, directory: Path) -> None:
        for name in ("b", "a", "group/c"):
            write_harbor(directory / "tasks", name)
        write_terminal_bench(directory / "tasks")


def test_a_harbor_task_carries_its_instruction_its_files_and_its_needs(tmp_path):
    folder = write_harbor(tmp_path / "tasks")
    (task,) = read(tmp_path)
    found = task.metadata["harbor"]
    assert (task.task_id, task.main_query) == ("hello", "Write hello.\n")
    assert Path(found["directory"]) == folder
    files = {name: found[name] for name in ("tests", "test_script", "solution", "dockerfile", "compose_file")}
    assert files == {
        "tests": "tests",
        "test_script": "tests/test.sh",
        "solution": "solution/solve.sh",
        "dockerfile": "environment/Dockerfile",
        "compose_file": None,
    }
    assert (found["agent_timeout_s"], found["verifier_timeout_s"], found["build_timeout_s"]) == (120.0, 30.5, 600.0)
    assert (found["docker_image"], found["cpus"], found["memory_mb"], found["storage_mb"]) == ("python:3.12-slim", 2, 2048, 4096)
    assert (found["network"], found["verifier_environment"]) == ("no-network", {"LEVEL": "${LEVEL:-1}"})
    assert found["about"] == {"author_name": "A", "difficulty": "easy", "created": "2026-01-31"}
    json.dumps(task.metadata)


def test_a_task_of_terminal_bench_has_its_time_limits_and_no_image(tmp_path):
    write_terminal_bench(tmp_path / "tasks")
    (task,) = read(tmp_path)
    found = task.metadata["harbor"]
    assert (task.main_query, found["format"], found["test_script"]) == ("Do it.\n", "terminal-bench", "run-tests.sh")
    assert (found["agent_timeout_s"], found["verifier_timeout_s"], found["docker_image"]) == (360.0, 60.0, None)
    assert found["about"] == {"difficulty": "hard"}


def test_the_marks_of_a_benchmark_are_not_part_of_the_instruction(tmp_path):
    write_harbor(tmp_path / "tasks", instruction="<!-- harbor-canary GUID 1 -->\n# BENCH Canary String\n\n# Do it\n# canary\n")
    (task,) = read(tmp_path)
    assert task.main_query == "# Do it\n# canary\n"


def test_what_playing_needs_is_read(tmp_path):
    more = (
        "cpus = 0.5\nskills_dir = '/skills'\n[[environment.mcp_servers]]\nname = 'a'\nurl = 'http://a'\n[solution.env]\nA = 'b'\n"
    )
    folder = write_harbor(tmp_path / "tasks", toml=f"[verifier]\nuser = 0\n[environment]\n{more}")
    (folder / "environment" / "docker-compose.yaml").write_text("services: {main: {}, db: {}}\n")
    (task,) = read(tmp_path)
    found = task.metadata["harbor"]
    assert (found["cpus"], found["verifier_user"], found["solution_environment"]) == (0.5, "0", {"A": "b"})
    assert (found["services"], found["unplayed"]) == (["main", "db"], ["environment.mcp_servers", "environment.skills_dir"])


def test_folders_are_chosen_by_patterns_in_the_order_of_their_paths(tmp_path):
    for name in ("z", "git/two", "git/one", "other"):
        write_harbor(tmp_path / "tasks", name)
    assert [task.task_id for task in read(tmp_path)] == ["git/one", "git/two", "other", "z"]
    assert [task.task_id for task in read(tmp_path, include=["git/*"], exclude=["*/two"])] == ["git/one"]
    assert [task.task_id for task in read(tmp_path, limit=1)] == ["git/one"]


def test_the_files_of_a_task_are_not_tasks(tmp_path):
    folder = write_harbor(tmp_path / "tasks")
    (folder / "environment" / "task.yaml").write_text("kind: Deployment\n")
    assert [task.task_id for task in read(tmp_path)] == ["hello"]


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[agent\n", r"hello/task.toml is not valid TOML"),
        ("[agent]\ntimeout_sec = 'long'\n", r"hello/task.toml: agent.timeout_sec: must be a number of at least 0, not 'long'"),
        ("[environment]\ncpus = 'two'\n", r"hello/task.toml: environment.cpus: must be a number of at least 0"),
        ("[environment]\ngpus = 1.5\n", r"hello/task.toml: environment.gpus: must be a whole number"),
        ("[environment]\nmemory = 'lots'\n", r"environment.memory: must be a size such as 512M or 2G, not 'lots'"),
        ("[environment]\nnetwork_mode = 'open'\n", r"environment.network_mode: must be one of public, no-network, allowlist"),
        ("[environment]\nos = 'windows'\n", r"environment.os: only linux is supported"),
        ("[environment]\nenv = { A = 1 }\n", r"environment.env: must be texts by name"),
        ("agent = 3\n", r"hello/task.toml: agent: must be a section, not 3"),
        ("[[steps]]\nname = 'one'\n", r"hello/task.toml: steps: tasks of several steps are not supported; .*`exclude`"),
    ],
)
def test_a_mistake_in_a_harbor_task_names_the_file_and_the_key(tmp_path, toml, message):
    write_harbor(tmp_path / "tasks", toml=toml)
    with pytest.raises(DataError, match=message):
        read(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("difficulty: hard\n", r"old/task.yaml: instruction: is missing"),
        ("instruction: [a]\n", r"old/task.yaml: instruction: must be a text"),
        ("instruction: a\nmax_test_timeout_sec: -1\n", r"old/task.yaml: max_test_timeout_sec: must be a number of at least 0"),
        ("- a\n", r"old/task.yaml holds no keys"),
        ("a: [\n", r"old/task.yaml is not valid YAML"),
    ],
)
def test_a_mistake_in_a_task_of_terminal_bench_names_the_file_and_the_key(tmp_path, text, message):
    write_terminal_bench(tmp_path / "tasks", text=text)
    with pytest.raises(DataError, match=message):
        read(tmp_path)


@pytest.mark.parametrize("missing", ["instruction.md", "tests/test.sh"])
def test_a_missing_file_is_named(tmp_path, missing):
    (write_harbor(tmp_path / "tasks") / missing).unlink()
    with pytest.raises(DataError, match=missing):
        read(tmp_path)


def test_a_directory_without_task_folders_is_reported_before_anything_is_read(tmp_path):
    with pytest.raises(DataError, match=r"astuner.task_reader.harbor.training.path: .*tasks is not a directory"):
        read(tmp_path)
    write_harbor(tmp_path / "tasks")
    with pytest.raises(DataError, match="no task folder that `include` and `exclude` leave"):
        read(tmp_path, include=["nothing"])


def test_the_files_that_describe_tasks_are_those_that_a_resume_compares(tmp_path):
    folder = write_harbor(tmp_path / "tasks")
    options = build_options(TaskFolderReader, {"training": {"path": "tasks"}}, key="astuner.task_reader.harbor")
    assert set(TaskFolderReader(options, tmp_path).list_files()) == {folder / "task.toml", folder / "instruction.md"}
