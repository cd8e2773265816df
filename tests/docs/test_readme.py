"""Every command block of the README and the tutorials is run, or is what CI itself runs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import venv
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(document: Path, language: str) -> list[str]:
    return [text.strip() for found, text in BLOCK.findall(document.read_text(encoding="utf-8")) if found == language]


README = blocks(REPOSITORY / "README.md", "bash")


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tracked files as they are in the working tree, in a directory of their own."""
    home = tmp_path_factory.mktemp("clone") / "astuner"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, check=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (REPOSITORY / name).is_file():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, home / name)
    return home


@pytest.fixture(scope="module")
def activated(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The line that activates a fresh virtual environment."""
    home = tmp_path_factory.mktemp("venv")
    venv.create(home, with_pip=True)
    return f"set -e; . {home}/bin/activate"


def bash(script: str, cwd: Path) -> str:
    found = subprocess.run(["bash", "-c", script], cwd=cwd, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout[-4000:] + found.stderr[-4000:]
    return found.stdout + found.stderr


def test_the_readme_has_one_command_to_see_it_work_and_one_for_the_tests():
    assert len(README) == 2
    assert "astuner quickstart my-agent" in README[0]
    assert README[1].endswith("&& tox")


def test_ci_runs_the_readmes_test_command():
    assert README[1] in (REPOSITORY / ".ci" / "run").read_text().splitlines()


def test_the_first_command_tunes_an_agent_on_a_bare_machine(clone: Path, activated: str):
    said = bash(f"{activated}\n{README[0]}", clone)
    assert "before" in said
    assert "after" in said
    rows = [json.loads(line) for line in (clone / "my-agent/launcher_record/calculator/metrics.jsonl").open()]
    rewards = [row["val/reward/mean"] for row in rows if row["kind"] == "validation"]
    assert rewards[0] <= 0.2
    assert rewards[-1] >= 0.85


@pytest.mark.parametrize("document", sorted((REPOSITORY / "tutorial").glob("*/README.md")), ids=lambda path: path.parent.name)
def test_the_commands_of_a_tutorial_run(document: Path, clone: Path, activated: str):
    # They build on the environment and the model that the first command has made.
    assert (clone / "my-agent" / "model").is_dir(), "needs the first command"
    found = blocks(document, "bash")
    assert found
    for command in found:
        bash(f"{activated}\n{command}", clone / document.parent.relative_to(REPOSITORY))


def test_the_python_examples_of_the_readme_play_an_episode(clone: Path, activated: str):
    workflow, judge = blocks(REPOSITORY / "README.md", "python")
    (config,) = blocks(REPOSITORY / "README.md", "yaml")
    home = clone / "own"
    home.mkdir()
    (home / "agent.py").write_text(workflow)
    (home / "judge.py").write_text(judge)
    (home / "tune.yaml").write_text(config)
    for name in ("train", "validation"):
        (home / f"{name}.jsonl").write_text('{"question": "two and two?", "answer": "4"}\n')
    said = bash(f"{activated}\nastuner run --conf tune.yaml --backbone debug --set model.path=../my-agent/model", home)
    assert "two and two?" in said


def test_no_document_names_a_file_that_is_not_there():
    for document in REPOSITORY.rglob("*.md"):
        if any(part.startswith(".") or part in ("node_modules", "my-agent") for part in document.relative_to(REPOSITORY).parts):
            continue
        for target in re.findall(r"\]\((?!http|#)([^)#]+)", document.read_text(encoding="utf-8")):
            assert (document.parent / target).exists(), f"{document}: {target}"
