"""Every mistake of `config_mistakes.yaml` is answered by place, key and remedy, before anything heavy or foreign is imported."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from forked_cli import Answered, ForkedCli, fork_server, run_alone
from harness import Cli

from astuner_devkit.distribution import write_distribution
from astuner_local.quickstart.template import write_project

MISTAKES = yaml.safe_load(Path(__file__).with_name("config_mistakes.yaml").read_text(encoding="utf-8"))
HEAVY = ("torch", "transformers", "ray", "datasets", "openai", "tokenizers", "starlette", "numpy.random", "tensorboard")
OWN_CODE = ("agent", "judge")
ALONE = [
    next(mistake for mistake in MISTAKES if way in mistake) for way in ("edits", "append", "arguments", "files", "installed")
]
"""One mistake of each way of making one."""


@pytest.fixture(scope="module")
def forked() -> Iterator[ForkedCli]:
    """A process that has imported nothing but the command line, and runs each command in a child."""
    with fork_server() as cli:
        yield cli


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The quickstart's project; of the model there is only the directory, since nothing may read it."""
    directory = tmp_path_factory.mktemp("quickstart") / "project"
    (directory / "model").mkdir(parents=True)
    write_project(directory, seed=0)
    return directory


@pytest.fixture
def project(written: Path, tmp_path: Path) -> Path:
    return shutil.copytree(written, tmp_path / "project")


def make(mistake: Mapping[str, Any], project: Path) -> str:
    """Make a mistake and return the text of the configuration."""
    text = (project / "tune.yaml").read_text(encoding="utf-8")
    for old, new in mistake.get("edits", {}).items():
        assert text.count(old) == 1, f"{old!r} is not once in tune.yaml"
        text = text.replace(old, new)
    text += mistake.get("append", "")
    (project / "tune.yaml").write_text(text, encoding="utf-8")
    for name, content in mistake.get("files", {}).items():
        (project / name).unlink() if content is None else (project / name).write_text(content, encoding="utf-8")
    for distribution in mistake.get("installed", ()):
        write_distribution(project.parent / "site", version="1.0", **distribution)
    return text


def arguments_of(mistake: Mapping[str, Any]) -> list[str]:
    arguments = mistake.get("arguments", [])
    return ["run", *([] if "--conf" in arguments else ["--conf", "tune.yaml"]), *arguments]


def imported_early(answered: Answered) -> list[str]:
    return [name for name in (*HEAVY, *OWN_CODE) if name in answered.imported]


def place_of(mistake: Mapping[str, Any], text: str) -> str:
    if "line" not in mistake:
        return str(mistake.get("place", "tune.yaml"))
    assert text.count(mistake["line"]) == 1, f"{mistake['line']!r} is not once in tune.yaml"
    return f"tune.yaml:{text[: text.index(mistake['line'])].count(chr(10)) + 1}: "


def test_there_are_at_least_forty_mistakes_and_each_is_another() -> None:
    names = [mistake["name"] for mistake in MISTAKES]
    assert len(names) >= 40
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake["name"])
def test_the_mistake_is_stopped_early_and_told_with_its_remedy(
    mistake: Mapping[str, Any], project: Path, forked: ForkedCli
) -> None:
    text = make(mistake, project)
    answered = forked.run(arguments_of(mistake), cwd=project, path=[project.parent / "site"])
    said = answered.said
    assert (answered.code, imported_early(answered)) == (2, []), said
    answer = next((line for line in said.splitlines() if all(part in line for part in mistake["says"])), said)
    assert all(part in answer for part in mistake["says"]), said
    assert place_of(mistake, text) in answer
    offered = answer.rpartition("Did you mean '")[2].removesuffix("'?") if "Did you mean" in answer else None
    assert offered == mistake.get("suggestion"), answer
    assert "Traceback" not in said
    assert not (project / "launcher_record").exists()


MANY = """\
hydra: {job: x}
astuner:
  model: {path: ./mdoel}
  task_reader:
    type: dataset_files
    dataset_file: {training: {file_path: tasks/trian.jsonl}}
  task_judge: {judge_type: maths}
  rollout:
    temprature: 0.7
    num_repeat: '8'
    user_workflow: ./agent.py:CalculatorAgnet
  trainer_common: {logger: [consol]}
  data: {max_prompt_length: many, max_response_length: 100000}
  services: {web: {command: [serve], cwd: ./nowhere}}
  backbone: loacl
"""
MANY_KEYS = [
    (1, "hydra"),
    (3, "astuner.model.path"),
    (5, "astuner.task_reader.type"),
    (6, "astuner.task_reader.dataset_file.training.file_path"),
    (7, "astuner.task_judge.judge_type"),
    (9, "astuner.rollout.temprature"),
    (10, "astuner.rollout.num_repeat"),
    (11, "astuner.rollout.user_workflow"),
    (12, "astuner.trainer_common.logger[0]"),
    (13, "astuner.data.max_prompt_length"),
    (14, "astuner.services.web.cwd"),
    (15, "astuner.backbone"),
]
"""Not that the lengths do not fit: one of them is not known."""


def test_all_mistakes_are_listed_at_once_in_the_order_of_the_file(project: Path, forked: ForkedCli) -> None:
    (project / "tune.yaml").write_text(MANY, encoding="utf-8")
    answered = forked.run(["config", "validate", "--conf", "tune.yaml", "--json"], cwd=project)
    problems = read_document(answered.said)["problems"]
    assert [(problem["line"], problem["key"]) for problem in problems] == MANY_KEYS
    ran = forked.run(["run", "--conf", "tune.yaml"], cwd=project)
    assert [line for line in ran.said.splitlines() if "tune.yaml:" not in line] == [f"error: {len(MANY_KEYS)} problems"]
    examined = forked.run(["doctor", "--conf", "tune.yaml", "--json"], cwd=project)
    rows = [row for row in read_document(examined.said)["rows"] if row["area"] == "configuration" and row["status"] == "broken"]
    # Each backbone is tried, so the name of the one that is chosen is a matter of its own row.
    assert [row["what"] for row in rows] == [key for _, key in MANY_KEYS if key != "astuner.backbone"]


@pytest.mark.parametrize(
    ("wrong", "keys"),
    [
        ("  rolout:\n    user_workflow: ./agent.py:CalculatorAgent\n", ["astuner.rolout"]),
        ("  rollout:\n    user_workfow: ./agent.py:CalculatorAgent\n", ["astuner.rollout.user_workfow"]),
        ("  rollout: 3\n", ["astuner.rollout"]),
        ("  rollout: {user_workflow: '${oc.env:NOT_SET_ANYWHERE}'}\n", ["astuner.rollout.user_workflow"]),
    ],
)
def test_what_only_follows_from_a_mistake_is_not_listed(wrong: str, keys: list[str], project: Path, forked: ForkedCli) -> None:
    reader = "{type: dataset_file, dataset_file: {training: {file_path: tasks/train.jsonl}}}"
    text = f"astuner:\n  model: {{path: ./model}}\n  task_reader: {reader}\n"
    (project / "tune.yaml").write_text(f"{text}  backbone: debug\n{wrong}", encoding="utf-8")
    answered = forked.run(["config", "validate", "--conf", "tune.yaml", "--json"], cwd=project)
    assert [problem["key"] for problem in read_document(answered.said)["problems"]] == keys


@pytest.mark.parametrize("mistake", ALONE, ids=lambda mistake: mistake["name"])
def test_a_process_of_its_own_answers_the_same(mistake: Mapping[str, Any], project: Path, forked: ForkedCli) -> None:
    make(mistake, project)
    site = project.parent / "site"
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    alone = run_alone(arguments_of(mistake), cwd=project, path=path)
    answered = forked.run(arguments_of(mistake), cwd=project, path=[site])
    assert (alone.code, alone.said) == (answered.code, answered.said)
    assert imported_early(alone) == imported_early(answered) == []


def test_without_a_mistake_the_same_configuration_is_valid(project: Path, cli: Cli) -> None:
    done = cli("config", "validate", "--conf", "tune.yaml", cwd=project)
    assert (done.returncode, done.stdout) == (0, "tune.yaml: valid\n"), done.stderr


def read_document(said: str) -> Any:
    """The document comes first, on stdout; an error is on stderr as well, which is in the same file here."""
    return json.JSONDecoder().raw_decode(said)[0]
