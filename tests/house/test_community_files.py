"""The files that forges, editors and Docker read are valid, and say what is so."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sysconfig
import tomllib
from pathlib import Path

import pytest
import yaml
from harness import REPOSITORY

PROGRAMS = Path(sysconfig.get_path("scripts"))
SCHEMAS = {
    "CITATION.cff": "vendor.citation-file-format",
    ".github/dependabot.yml": "vendor.dependabot",
    ".github/ISSUE_TEMPLATE/config.yml": "vendor.github-issue-config",
}
VERSION = runpy.run_path(str(REPOSITORY / "scripts" / "set_version.py"))["read_version"]()
DOCKERFILES = sorted(REPOSITORY.glob("scripts/images/*.Dockerfile"))
WORKFLOWS = sorted(REPOSITORY.glob(".github/workflows/*.yml"))
FORMS = sorted(path for path in REPOSITORY.glob(".github/ISSUE_TEMPLATE/*.yml") if path.name != "config.yml")
ACTION = re.compile(r"uses: (?:\./\.github/workflows/\w+\.yml|[\w.-]+/[\w./-]+@(?:v\d+|release/v\d+|[0-9a-f]{40}))(?: #.*)?")


def check(schema: str, *files: Path) -> str:
    command = [str(PROGRAMS / "check-jsonschema"), "--builtin-schema", schema, *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_file_is_valid(name: str) -> None:
    assert check(SCHEMAS[name], REPOSITORY / name) == "ok -- validation done\n"


def test_workflows_and_forms_are_valid() -> None:
    assert {path.stem for path in WORKFLOWS} == {"docs", "publish", "test"}
    assert {path.stem for path in FORMS} == {"bug", "plugin", "question"}
    assert check("vendor.github-workflows", *WORKFLOWS) == "ok -- validation done\n"
    assert check("custom.github-workflows-require-timeout", *WORKFLOWS) == "ok -- validation done\n"
    assert check("vendor.github-issue-forms", *FORMS) == "ok -- validation done\n"


def test_a_mistake_is_found(tmp_path: Path) -> None:
    broken = tmp_path / "test.yml"
    broken.write_text(WORKFLOWS[-1].read_text(encoding="utf-8").replace("runs-on:", "run-on:"), encoding="utf-8")
    assert "ok -- validation done" not in check("vendor.github-workflows", broken)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_few_rights_and_actions_of_one_version(workflow: Path) -> None:
    text = workflow.read_text(encoding="utf-8")
    read = yaml.safe_load(text)
    assert read["permissions"] == {"contents": "read"}
    assert [line.strip(" -") for line in text.splitlines() if "uses: " in line and not ACTION.fullmatch(line.strip(" -"))] == []
    # What a stranger may choose, such as the title of a pull request, never becomes part of a script.
    scripts = [step.get("run", "") for job in read["jobs"].values() for step in job.get("steps", ())]
    assert [script for script in scripts if "${{" in script] == []


def test_the_test_workflow_runs_what_ci_runs() -> None:
    steps = yaml.safe_load((REPOSITORY / ".github/workflows/test.yml").read_text(encoding="utf-8"))["jobs"]["test"]["steps"]
    assert steps[-1]["run"].startswith("bash .ci/run ")


def test_only_tested_packages_are_published_and_without_a_token() -> None:
    text = (REPOSITORY / ".github/workflows/publish.yml").read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    needs = {name: job.get("needs") for name, job in jobs.items()}
    assert needs == {"test": None, "build": "test", "index": "build", "release": "index"}
    assert jobs["index"]["permissions"] == {"id-token": "write"}
    assert "secrets." not in text
    named = set(re.findall(r"python (scripts/\w+\.py)", text))
    assert named == {f"scripts/{name}.py" for name in ("build_packages", "set_version", "write_hashed", "write_sboms")}
    assert [name for name in named if not (REPOSITORY / name).is_file()] == []


def test_the_citation_names_the_version() -> None:
    read = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text(encoding="utf-8"))
    assert (str(read["version"]), read["license"]) == (VERSION, "Apache-2.0")


def test_the_form_for_bugs_asks_for_what_a_command_prints() -> None:
    form = (REPOSITORY / ".github/ISSUE_TEMPLATE/bug.yml").read_text(encoding="utf-8")
    assert "astuner doctor --json" in form


def test_the_form_for_plugins_has_the_lines_of_an_entry() -> None:
    fields = runpy.run_path(str(REPOSITORY / "scripts" / "write_plugin_directory.py"))["FIELDS"]
    form = yaml.safe_load((REPOSITORY / ".github/ISSUE_TEMPLATE/plugin.yml").read_text(encoding="utf-8"))
    entry = form["body"][0]["attributes"]["value"]
    assert re.findall(r"^(\w+) = ", entry, re.MULTILINE) == [*fields]


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda path: path.name)
def test_a_dockerfile_has_no_complaint(file: Path) -> None:
    command = [str(PROGRAMS / "hadolint"), "--no-color", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "XDG_CONFIG_HOME": os.devnull})
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda path: path.name)
def test_an_image_is_without_root_and_checks_its_files(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    final = text.rpartition("\nFROM ")[2]
    assert re.findall(r"^USER (.*)$", final, re.MULTILINE) == ["1000:1000"]
    assert 'ENTRYPOINT ["astuner"]' in final
    assert "pip install" not in final
    assert re.findall(r"^FROM [\w./-]+(?! )$|:latest", text, re.MULTILINE) == []
    unchecked = [line for line in re.findall(r"uv pip install.*", text) if "--require-hashes" not in line]
    assert unchecked == (["uv pip install --no-deps torch==2.13.0"] if file.name.startswith("cpu") else [])
    copied = {name for line in re.findall(r"^COPY (?!--)(.*)$", text, re.MULTILINE) for name in line.split()[:1]}
    ignored = (REPOSITORY / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert copied == {line.removeprefix("!") for line in ignored if line.startswith("!")}


def test_the_container_for_editors_is_the_image_and_begins_the_quickstart() -> None:
    folder = REPOSITORY / ".devcontainer"
    read = json.loads((folder / "devcontainer.json").read_text(encoding="utf-8"))
    assert (folder / read["build"]["dockerfile"]).resolve() == REPOSITORY / "scripts" / "images" / "cpu.Dockerfile"
    assert read["postCreateCommand"] == "astuner quickstart my-agent --no-run"


def test_the_line_below_the_title_is_true() -> None:
    line = (REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()[2]
    project = tomllib.loads((REPOSITORY / "astuner-core" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest, below = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", project["requires-python"]).groups()  # type: ignore[union-attr]
    assert line.startswith(f"`astuner` {VERSION} · Python 3.{oldest}–3.{int(below) - 1} · Linux, macOS · [{project['license']}]")


def test_a_page_asks_no_other_host_for_a_picture() -> None:
    pages = [REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")] + [*REPOSITORY.glob("docs/*.md")]
    assert [page.name for page in pages if re.search(r"!\[[^\]]*\]\(https?:|<img", page.read_text(encoding="utf-8"))] == []
