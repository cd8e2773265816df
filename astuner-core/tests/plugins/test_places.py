"""Where a workflow may be: each form of its place is found, or refused in words that say what to write."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from astuner.settings.plugins.source_names import find_missing_name
from astuner.settings.plugins.specs import ByPath, parse
from astuner_devkit.command_line import run_command
from astuner_devkit.project import write_project

AGENT = """
from astuner import Workflow, WorkflowOutput


class Agent(Workflow):
    async def execute(self, workflow_task, tuner):
        client = tuner.as_raw_openai_sdk_client()
        await client.chat.completions.create(model="tuned", messages=[{"role": "user", "content": "2 + 2?"}])
        return WorkflowOutput(reward=1.0)
"""
FILES = ("agent.py", "sub dir/my agent.py", "a.b/agent.py", "home/agent.py", "co:lon.py", "ünï.py", "-dash.py", "no_suffix")
FOUND = {
    "{here}/agent.py:Agent": "agent.py",
    "{here}/agent.py->Agent": "agent.py",
    " {here}/agent.py : Agent ": "agent.py",
    "agent.py:Agent": "agent.py",
    "./agent.py:Agent": "agent.py",
    "../{name}/agent.py:Agent": "agent.py",
    "~/agent.py:Agent": "home/agent.py",
    "./sub dir/my agent.py:Agent": "sub dir/my agent.py",
    "{here}/a.b/agent.py:Agent": "a.b/agent.py",
    "./co:lon.py:Agent": "co:lon.py",
    "{here}/co:lon.py:Agent": "co:lon.py",
    "./ünï.py:Agent": "ünï.py",
    "./-dash.py:Agent": "-dash.py",
}
REFUSED = {
    "{here}/missing.py:Agent": "there is no file {here}/missing.py",
    "~nobody-has-this-name/agent.py:Agent": "/agent.py cannot be read: Could not determine home directory",
    "$HOME/agent.py:Agent": "there is no file {here}/$HOME/agent.py",
    "C:\\work\\agent.py:Agent": "there is no file {here}/C:\\work\\agent.py",
    "file://{here}/agent.py:Agent": "there is no file {here}/file:",
    "{here}/agent.py:Agnet": "there is no 'Agnet' in {here}/agent.py",
    "{here}/agent.py:": "which class of the file? Write `{here}/agent.py:ClassName`",
    "{here}/agent.py": "which class of the file? Write `{here}/agent.py:ClassName`",
    "{here}/no_suffix:Agent": "'{here}/no_suffix' is neither a module nor a `.py` file",
    "{here}:Agent": "is neither a module nor a `.py` file",
    "{here}/agent.py::Agent": "'{here}/agent.py:' is neither a module nor a `.py` file",
    "sub dir/agent:Agent": "'sub dir/agent' is neither a module nor a `.py` file",
    ":Agent": "'' is neither a module nor a `.py` file",
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in FILES:
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(AGENT, encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.parametrize("form", FOUND)
def test_the_file_of_a_place_is_found(form: str, here: Path):
    spec = form.format(here=here, name=here.name)
    assert find_missing_name(spec, here) is None
    assert parse(spec, here) == ByPath(target=f"{here.resolve() / FOUND[form]}:Agent")


@pytest.mark.parametrize("form", REFUSED)
def test_any_other_place_is_refused_with_what_is_wrong(form: str, here: Path):
    spec = form.format(here=here)
    said = REFUSED[form].format(here=here)
    missing = find_missing_name(spec, here)
    if missing is not None:
        assert said in missing.message
    else:
        with pytest.raises(ValueError, match=re.escape(said)):
            parse(spec, here)


@pytest.mark.parametrize("form", ["{here}/sub dir/my agent.py:Agent", "{here}/co:lon.py:Agent", "~/agent.py->Agent"])
def test_it_plays(form: str, here: Path):
    write_project(here, workflow=form.format(here=here))
    finished = run_command("run", "--conf", "project.yaml", cwd=here)
    assert finished.code == 0, finished.err


def test_a_neighbour_of_the_file_that_is_not_found_is_explained(here: Path, tmp_path_factory: pytest.TempPathFactory):
    (here / "home/agent.py").write_text(f"import tools_of_the_agent\n{AGENT}")
    (here / "home/tools_of_the_agent.py").touch()
    project = tmp_path_factory.mktemp("project")
    write_project(project, workflow="~/agent.py:Agent")
    finished = run_command("run", "--conf", "project.yaml", cwd=project)
    assert finished.code == 2
    assert "No module named 'tools_of_the_agent'" in finished.err
    assert f"modules are found next to the configuration: export PYTHONPATH={here}/home" in finished.err
