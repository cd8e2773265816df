"""Every mistake of `config_mistakes.yaml` is answered by place, key and remedy, before anything heavy or foreign is imported."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from forked_cli import Answered, ForkedCli, fork_server, run_alone
from harness import Cli

from astuner.testing.distribution import write_distribution
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
