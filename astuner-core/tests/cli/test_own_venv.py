"""A command continues in the environment of its backbone, and never twice; until that is usable, commands say what is wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner import run
from astuner.cli import own_venv
from astuner.cli.own_venv import EnterVenv, enter_venv
from astuner.contract.errors import UsageError
from astuner.settings.planning.own_venv import ENTERED
from astuner_devkit.project import write_project

BACKBONE = """
import os
from pathlib import Path

from astuner.contract.protocols import BackboneTraits, VenvState


class AcmeVenv:
    def examine(self, backbone):
        status, _, reason = os.environ["ACME_VENV"].partition(": ")
        return VenvState(backbone=backbone, status=status, directory=Path("/venvs/acme"), reason=reason, command="acme make")


class Acme:
    name = "acme"
    traits = BackboneTraits(honours=("*",), own_venv=AcmeVenv())
"""


@pytest.fixture
def be(fake_distribution: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Installs a backbone with an environment of its own, and sets the state of that: `STATUS: REASON`."""
    offer = {"astuner.backbones": {"acme": "acme_backbone:Acme"}}
    fake_distribution(
        "acme-backbone", files={"acme_backbone.py": BACKBONE}, entry_points=offer, requires=("astuner-core>=0.2,<0.3",)
    )
    return lambda state: monkeypatch.setenv("ACME_VENV", state)


@pytest.mark.parametrize("status", ["in place", "missing", "outdated", "unsupported"])
def test_only_an_environment_that_is_ready_is_entered(be: Callable[[str], None], tmp_path: Path, status: str) -> None:
    be(status)
    enter_venv("acme", tmp_path)


def test_a_backbone_without_one_stays(tmp_path: Path) -> None:
    enter_venv("debug", tmp_path)


def test_what_it_lacks_is_shown_before_it_is_entered(
    be: Callable[[str], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    be("ready: lacks acme-new==2.0")
    with pytest.raises(EnterVenv, match="/venvs/acme"):
        enter_venv("acme", tmp_path)
    shown = capsys.readouterr().err
    assert shown == "the environment of the backbone 'acme' lacks acme-new==2.0; acme make brings it up to date\n"


def test_one_that_was_entered_and_lacks_its_libraries_is_not_entered_again(
    be: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENTERED, "/venvs/acme")
    be("ready")
    with pytest.raises(UsageError, match=r"/venvs/acme: is the environment of the backbone 'acme', and lacks .*: acme make"):
        enter_venv("acme", tmp_path)


def test_children_of_an_entered_command_may_enter_others(
    be: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENTERED, "/venvs/acme")
    be("in place")
    enter_venv("acme", tmp_path)
    assert ENTERED not in os.environ


def test_a_run_from_python_names_the_python_to_start(be: Callable[[str], None], tmp_path: Path) -> None:
    be("ready")
    with pytest.raises(UsageError, match="start Python there, /venvs/acme/bin/python"):
        run(write_project(tmp_path / "project", backbone="acme"))


@pytest.mark.parametrize(
    ("started", "program"), [("/usr/bin/astuner", ["/venvs/acme/bin/astuner"]), ("/lib/astuner/__main__.py", ["-m", "astuner"])]
)
def test_the_process_becomes_the_same_command_there(monkeypatch: pytest.MonkeyPatch, started: str, program: list[str]) -> None:
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(own_venv.os, "execve", lambda *call: calls.append(call))
    monkeypatch.setattr(sys, "argv", [started])
    monkeypatch.setenv("PYTHONHOME", "/python")
    EnterVenv(Path("/venvs/acme")).replace_process(["run", "--conf", "a b.yaml"])
    ((file, words, environment),) = calls
    assert (str(file), words) == ("/venvs/acme/bin/python", ["/venvs/acme/bin/python", *program, "run", "--conf", "a b.yaml"])
    assert (environment["VIRTUAL_ENV"], environment[ENTERED]) == ("/venvs/acme", "/venvs/acme")
    assert environment["PATH"].startswith(f"/venvs/acme/bin{os.pathsep}")
    assert "PYTHONHOME" not in environment


@pytest.mark.parametrize("command", [("run",), ("config", "validate")])
def test_what_needs_a_backbone_that_is_not_set_up_names_the_command(
    astuner: Callable[..., Any], be: Callable[[str], None], tmp_path: Path, command: tuple[str, ...]
) -> None:
    be("missing: which is not set up yet")
    refused = astuner(*command, "--conf", str(write_project(tmp_path / "project", backbone="acme")))
    assert refused.returncode == 2
    assert "astuner.backbone: the backbone 'acme' has its own virtual environment" in refused.stderr
    assert refused.stderr.count("which is not set up yet: acme make") == 1
