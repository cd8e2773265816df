"""Every mistake of `config_mistakes.yaml` is answered by place, key and remedy, before anything heavy or foreign is imported."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from harness import environment

from astuner.testing.distribution import write_distribution
from astuner_local.quickstart.template import write_project

MISTAKES = yaml.safe_load(Path(__file__).with_name("config_mistakes.yaml").read_text(encoding="utf-8"))
HEAVY = ("torch", "transformers", "ray", "datasets", "openai", "tokenizers", "starlette", "numpy.random", "tensorboard")
OWN_CODE = ("agent", "judge")
RUN = f"""
import json, pathlib, sys
from astuner.cli import exit_code_of
code = exit_code_of(sys.argv[2:])
imported = [name for name in {(*HEAVY, *OWN_CODE)!r} if name in sys.modules]
pathlib.Path(sys.argv[1]).write_text(json.dumps([code, imported]))
"""


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


def run(mistake: Mapping[str, Any], project: Path) -> tuple[int, list[str], str]:
    """Return the exit code of `astuner run`, what was imported, and what it said."""
    result = project.parent / "result.json"
    conf = [] if "--conf" in mistake.get("arguments", ()) else ["--conf", "tune.yaml"]
    command = [sys.executable, "-c", RUN, str(result), "run", *conf, *mistake.get("arguments", ())]
    path = os.pathsep.join(filter(None, [str(project.parent / "site"), os.environ.get("PYTHONPATH")]))
    env = environment({"PYTHONPATH": path})
    done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert result.is_file(), done.stderr
    code, imported = json.loads(result.read_text())
    return code, imported, done.stderr


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
def test_the_mistake_is_stopped_early_and_told_with_its_remedy(mistake: Mapping[str, Any], project: Path) -> None:
    text = make(mistake, project)
    code, imported, said = run(mistake, project)
    assert (code, imported) == (2, []), said
    answer = next((line for line in said.splitlines() if all(part in line for part in mistake["says"])), said)
    assert all(part in answer for part in mistake["says"]), said
    assert place_of(mistake, text) in answer
    offered = answer.rpartition("Did you mean '")[2].removesuffix("'?") if "Did you mean" in answer else None
    assert offered == mistake.get("suggestion"), answer
    assert "Traceback" not in said
    assert not (project / "launcher_record").exists()


def test_without_a_mistake_the_same_configuration_is_valid(project: Path) -> None:
    command = [sys.executable, "-m", "astuner", "config", "validate", "--conf", "tune.yaml"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "tune.yaml: valid\n"), done.stderr
