"""A command continues in the environment of its backbone, and never twice."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import UsageError
from astuner.contract.protocols import OwnVenv
from astuner.settings.venvs import entry, process_replacement
from astuner.settings.venvs.entry import enter
from astuner.settings.venvs.process_replacement import ENTERED, EnterVenv
from astuner.settings.venvs.state import VenvState
from astuner.settings.venvs.uv import find_uv, read_pip_settings


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Sets the state of the environment."""

    def be(status: Any, reason: str = "") -> None:
        found = VenvState(backbone="acme", status=status, directory=tmp_path, reason=reason, command="astuner setup acme")
        monkeypatch.setattr(entry, "examine_venv", lambda *_: found)

    return be


@pytest.mark.parametrize("status", ["in place", "missing", "outdated", "unsupported"])
def test_only_an_environment_that_is_ready_is_entered(own: OwnVenv, state: Callable[..., None], status: str) -> None:
    state(status)
    enter("acme", own, print)


def test_what_it_lacks_is_said_before_it_is_entered(own: OwnVenv, state: Callable[..., None]) -> None:
    said: list[str] = []
    state("ready", "lacks acme-new==2.0")
    with pytest.raises(EnterVenv):
        enter("acme", own, said.append)
    assert said == ["the environment of the backbone 'acme' lacks acme-new==2.0; astuner setup acme brings it up to date"]


def test_one_that_was_entered_and_lacks_its_libraries_is_not_entered_again(
    own: OwnVenv, state: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENTERED, "/venvs/acme")
    state("ready")
    with pytest.raises(UsageError, match="/venvs/acme: is the environment of the backbone 'acme', and lacks acme-trainer"):
        enter("acme", own, print)


def test_children_of_an_entered_command_may_enter_others(
    own: OwnVenv, state: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENTERED, "/venvs/acme")
    state("in place")
    enter("acme", own, print)
    assert ENTERED not in os.environ


@pytest.mark.parametrize(
    ("started", "program"), [("/usr/bin/astuner", ["/venvs/acme/bin/astuner"]), ("/lib/astuner/__main__.py", ["-m", "astuner"])]
)
def test_the_process_becomes_the_same_command_there(monkeypatch: pytest.MonkeyPatch, started: str, program: list[str]) -> None:
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(process_replacement.os, "execve", lambda *call: calls.append(call))
    monkeypatch.setattr(sys, "argv", [started])
    monkeypatch.setenv("PYTHONHOME", "/python")
    EnterVenv(Path("/venvs/acme")).replace_process(["run", "--conf", "a b.yaml"])
    ((file, words, environment),) = calls
    assert (str(file), words) == ("/venvs/acme/bin/python", ["/venvs/acme/bin/python", *program, "run", "--conf", "a b.yaml"])
    assert (environment["VIRTUAL_ENV"], environment[ENTERED]) == ("/venvs/acme", "/venvs/acme")
    assert environment["PATH"].startswith(f"/venvs/acme/bin{os.pathsep}")
    assert "PYTHONHOME" not in environment


def test_without_uv_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("astuner.settings.venvs.uv.sysconfig.get_path", lambda _: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="pip install uv"):
        find_uv()


def test_uv_looks_where_pip_looks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = tmp_path / "pip.conf"
    settings.write_text("[global]\nindex-url = https://mirror.acme.org/simple\nfind-links =\n  /one\n  /two\ntimeout = 5\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(settings))
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_CERT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", "https://other.acme.org/simple")
    found = dict(read_pip_settings())
    assert found["index-url"] == "https://other.acme.org/simple"
    assert found["find-links"] == "/one,/two"
    assert "timeout" not in found
