"""The command `ajet` does what `astuner run` does, and says which options have no counterpart."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from astuner_ajet.command_line import NO_EFFECT, translate

YAML = """
ajet:
  model: {path: model}
  task_reader: {type: random_dummy}
  task_judge: {judge_protocol: null}
  rollout: {user_workflow: solver.py->Agent, name: scripted}
hydra: {searchpath: [file://ajet/default_config]}
"""
AGENT = """
from ajet import Workflow, WorkflowOutput

class Agent(Workflow):
    async def execute(self, workflow_task, tuner):
        return WorkflowOutput(reward=1.0)
"""


@pytest.mark.parametrize(
    ("typed", "command"),
    [
        ("--conf a.yaml", "astuner run --conf a.yaml --backbone verl"),
        ("--conf a.yaml --backbone=trinity --with-ray", "astuner run --conf a.yaml --backbone trinity --with-ray"),
        ("--conf a.yaml --backbone debug --db=A|B", "astuner run --conf a.yaml --backbone debug --db A --db B"),
        ("--conf a.yaml --backbone debug --debug A", "astuner run --conf a.yaml --backbone debug --db A"),
        ("--backbone debug --with-appworld --with-logview --conf a.yaml --with-bfcl",
         "astuner run --conf a.yaml --backbone debug --with-appworld --with-logview --with bfcl"),
        ("--conf d/a.yaml --backbone debug --exp-dir out",
         "astuner run --conf d/a.yaml --backbone debug --set experiment_dir=out/a"),
        ("--conf a.yaml --backbone local --set seed=3 --dry-run",
         "astuner run --conf a.yaml --backbone local --set seed=3 --dry-run"),
    ],
)  # fmt: skip
def test_options_are_those_of_run(typed, command):
    assert translate(typed.split()).format_command() == command


def test_the_backbone_that_nobody_named_is_agentjets_and_said():
    assert any("--backbone debug" in notice for notice in translate(["--conf", "a.yaml"]).notices)
    assert translate(["--conf", "a.yaml", "--backbone", "debug"]).notices == []


@pytest.mark.parametrize("name", NO_EFFECT)
def test_options_without_a_counterpart_are_named(name):
    option = f"--{name.replace('_', '-')}"
    value = ["fin"] if name == "prefix" else []
    [notice] = translate(["--conf", "a.yaml", "--backbone", "debug", option, *value]).notices
    assert notice.startswith(f"{option} has no effect: ")


@pytest.mark.parametrize("typed", [["--kill", "ray|python"], ["--autokill"], []])
def test_nothing_is_killed_by_its_name(typed, capsys):
    with pytest.raises(SystemExit) as ended:
        translate(typed)
    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert "--conf FILE is missing" in shown
    assert ("astuner stop" in shown) is bool(typed)
    assert translate(["--conf", "a.yaml", "--backbone", "debug", "--kill", "ray"]).notices[0].startswith("--kill has no effect")


def test_both_modules_are_the_command():
    import ajet.__main__
    import ajet.launcher

    assert ajet.__main__.main is ajet.launcher.main
    [point] = entry_points(group="console_scripts", name="ajet")
    assert point.load() is ajet.launcher.main


def test_it_ends_as_the_run_does(tmp_path):
    (tmp_path / "a.yaml").write_text(YAML)
    (tmp_path / "solver.py").write_text(AGENT)
    command = [sys.executable, "-m", "ajet.launcher", "--conf", "a.yaml", "--backbone=debug", "--autokill"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "ajet is astuner run --conf a.yaml --backbone debug" in ended.stderr
    assert "--autokill has no effect" in ended.stderr
    # There are no replies: what the run says about it is shown, and its exit code is kept.
    assert ended.returncode == 1
    assert "engine 'scripted': no replies" in ended.stderr
