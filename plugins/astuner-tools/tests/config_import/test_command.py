"""`astuner config import` with an importer of an installed distribution."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Astuner = Callable[..., "subprocess.CompletedProcess[str]"]
IMPORTER = """
from astuner.settings.config.importers import Answer, Translation

class Acme:
    def claims(self, values):
        return False

    def translate(self, values, *, file=None):
        ours = {"model": {"path": values["weights"]}, "seed": values.get("dice", 0)}
        answers = [Answer(key="weights", kind="translated", keys=("astuner.model.path",))]
        if "dice" in values:
            answers.append(Answer(key="dice", kind="translated", keys=("astuner.seed",)))
        if "colour" in values:
            answers.append(Answer(key="colour", kind="dropped", reason="nothing is painted here"))
        return Translation(roots={"astuner": ours}, answers=tuple(answers))
"""
DROPS_ALL = """
from astuner.settings.config.importers import Answer, Translation

class Acme:
    def claims(self, values):
        return False

    def translate(self, values, *, file=None):
        answers = [Answer(key=key, kind="dropped", reason="unknown") for key in values]
        return Translation(roots={"astuner": {"backbone": "debug"}}, answers=answers)
"""
SCRIPTED = """
from astuner.settings.config.importers import Answer, Translation

class Acme:
    def claims(self, values):
        return False

    def translate(self, values, *, file=None):
        names = {"weights": "model.path", "dice": "seed", "batch": "data.train_batch_size", "name": "project_name"}
        ours, answers = {}, []
        for key, value in values["sec"].items():
            section, _, last = names[key].rpartition(".")
            (ours.setdefault(section, {}) if section else ours)[last] = value
            answers.append(Answer(key=f"sec.{key}", kind="translated", keys=(f"astuner.{names[key]}",)))
        return Translation(roots={"astuner": ours}, answers=answers)
"""


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory in which a distribution with the importer `acme` is installed, and a file of that trainer."""
    info = tmp_path / "site" / "acme-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[astuner.importers]\nacme = acme_importer:Acme\n")
    (tmp_path / "site" / "acme_importer.py").write_text(IMPORTER)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    (tmp_path / "theirs.yaml").write_text("weights: org/name\ndice: 3\ncolour: red\n")
    return tmp_path


def test_a_file_is_written_with_what_was_left_out(astuner: Astuner, acme: Path) -> None:
    found = astuner("config", "import", str(acme / "theirs.yaml"), "--from", "acme", "--out", str(acme / "tune.yaml"))
    assert found.returncode == 0, found.stderr
    assert "3 keys: 2 arrived, 0 not needed, 1 left out." in found.stdout
    text = (acme / "tune.yaml").read_text()
    assert "#   colour: nothing is painted here" in text
    assert "path: org/name" in text
    assert "agent.py: one call for each task" in found.stdout
    assert "class Agent(Workflow)" in (acme / "agent.py").read_text()


def test_a_value_that_is_not_valid_here_is_left_out_with_the_reason(astuner: Astuner, acme: Path) -> None:
    (acme / "theirs.yaml").write_text("weights: org/name\ndice: many\n")
    found = astuner("config", "import", str(acme / "theirs.yaml"), "--from", "acme", "--out", str(acme / "t.yaml"), "--json")
    answers = {answer["key"]: answer for answer in json.loads(found.stdout)["answers"]}
    assert answers["dice"]["kind"] == "dropped"
    assert "seed" not in (acme / "t.yaml").read_text().partition("astuner:")[2]


def test_an_existing_file_is_kept(astuner: Astuner, acme: Path) -> None:
    (acme / "tune.yaml").write_text("mine")
    arguments = ("config", "import", str(acme / "theirs.yaml"), "--from", "acme", "--out", str(acme / "tune.yaml"))
    found = astuner(*arguments)
    assert found.returncode == 2
    assert "--force" in found.stderr
    assert (acme / "tune.yaml").read_text() == "mine"
    assert astuner(*arguments, "--force").returncode == 0


def test_an_agent_that_is_there_is_kept(astuner: Astuner, acme: Path) -> None:
    (acme / "agent.py").write_text("mine = 1\n")
    found = astuner("config", "import", str(acme / "theirs.yaml"), "--from", "acme", "--out", str(acme / "tune.yaml"))
    assert found.returncode == 0
    assert "agent.py, which was there: the YAML takes `Agent` and `compute_reward` from it." in found.stdout
    assert (acme / "agent.py").read_text() == "mine = 1\n"
    assert "user_workflow: agent.py, which was there, has no 'Agent'" in found.stdout
    assert "judge_protocol: agent.py, which was there, has no 'compute_reward'" in found.stdout
    (acme / "agent.py").write_text("def broken(:\n")
    found = astuner("config", "import", str(acme / "theirs.yaml"), "--from", "acme", "--out", str(acme / "other.yaml"))
    assert "agent.py, which was there, cannot be read as Python" in found.stdout


def test_an_unknown_source_lists_those_there_are(astuner: Astuner, acme: Path) -> None:
    found = astuner("config", "import", str(acme / "theirs.yaml"), "--from", "acne", "--out", str(acme / "tune.yaml"))
    assert found.returncode == 2
    assert "there is no such source; there are acme" in found.stderr
    assert "Traceback" not in found.stderr


def test_a_source_of_a_package_that_is_missing_names_its_installation(astuner: Astuner, acme: Path) -> None:
    found = astuner("config", "import", str(acme / "theirs.yaml"), "--from", "trinity", "--out", str(acme / "tune.yaml"))
    assert found.returncode == 2
    assert "--from trinity: it comes with a package: python -m pip install astuner-trinity; there are acme" in found.stderr


def test_an_importer_that_fails_is_blamed(astuner: Astuner, acme: Path) -> None:
    (acme / "theirs.yaml").write_text("dice: 3\n")
    found = astuner("config", "import", str(acme / "theirs.yaml"), "--from", "acme", "--out", str(acme / "tune.yaml"))
    assert found.returncode == 2
    assert "importer 'acme' from acme 1.0 could not read it: KeyError: 'weights'" in found.stderr
    assert not (acme / "tune.yaml").exists()


@pytest.mark.parametrize("text", ["", "- a\n", "a: [1\n", "3"])
def test_what_is_no_mapping_is_refused(astuner: Astuner, acme: Path, text: str) -> None:
    (acme / "theirs.yaml").write_text(text)
    found = astuner("config", "import", str(acme / "theirs.yaml"), "--from", "acme", "--out", str(acme / "tune.yaml"))
    assert found.returncode == 2
    assert "theirs.yaml" in found.stderr


def test_importers_are_listed(astuner: Astuner, acme: Path) -> None:
    rows = json.loads(astuner("plugin", "list", "--kind", "importer", "--json").stdout)
    assert ("acme", "1.0") in [(row["name"], row["version"]) for row in rows]


def test_a_file_of_another_trainer_is_refused(astuner: Astuner, acme: Path) -> None:
    (acme / "site" / "acme_importer.py").write_text(DROPS_ALL)
    (acme / "theirs.yaml").write_text("process: []\n")
    found = astuner("config", "import", str(acme / "theirs.yaml"), "--from", "acme", "--out", str(acme / "tune.yaml"))
    assert found.returncode == 2
    assert "no key of this file is one of 'acme'; the first is 'process'" in found.stderr


def test_a_file_without_a_section_of_the_trainer_is_refused(astuner: Astuner, acme: Path) -> None:
    other = DROPS_ALL.replace('{"backbone": "debug"}', "{}").replace("dropped", "ignored")
    (acme / "site" / "acme_importer.py").write_text(other)
    (acme / "theirs.yaml").write_text("jobs: []\n")
    found = astuner("config", "import", str(acme / "theirs.yaml"), "--from", "acme", "--out", str(acme / "tune.yaml"))
    assert found.returncode == 2
    assert "no key of this file is one of 'acme'" in found.stderr


def test_a_variable_of_a_script_is_named_with_the_key_it_feeds(astuner: Astuner, acme: Path) -> None:
    (acme / "site" / "acme_importer.py").write_text(SCRIPTED)
    (acme / "run.sh").write_text("python x sec.weights=$NO_SUCH_MODEL sec.dice=$NO_SUCH_SEED sec.name=a_$(date) sec.batch=3\n")
    found = astuner("config", "import", str(acme / "run.sh"), "--from", "acme", "--out", str(acme / "t.yaml"), "--json")
    document = json.loads(found.stdout)
    answers = {answer["key"]: answer for answer in document["answers"]}
    assert answers["sec.weights"]["kind"] == answers["sec.batch"]["kind"] == "translated"
    assert "NO_SUCH_SEED" in answers["sec.dice"]["reason"]
    assert "astuner.seed" in answers["sec.dice"]["reason"]
    assert "$(date)" in answers["sec.name"]["reason"]
    [problem] = [problem for problem in document["problems"] if problem["key"] == "astuner.model.path"]
    assert "NO_SUCH_MODEL" in problem["message"]
    assert "${oc.env:NO_SUCH_MODEL}" in (acme / "t.yaml").read_text()


def test_tasks_that_a_source_does_not_name_are_the_users_to_provide(astuner: Astuner, acme: Path) -> None:
    found = astuner("config", "import", str(acme / "theirs.yaml"), "--from", "acme", "--out", str(acme / "t.yaml"))
    assert "To be done" in found.stdout
    assert "task_reader.dataset_file.training.file_path" in found.stdout
