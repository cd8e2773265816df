"""A remedy is a command that works: from the clone that core was installed from, else from the index."""

from __future__ import annotations

import json
from importlib.metadata import Distribution
from pathlib import Path

import pytest

from astuner.shared import install_hints
from astuner.shared.install_hints import (
    command_for,
    explain_missing_module,
    explain_missing_package,
    install_command,
    install_from_index,
)


class InstalledCore(Distribution):
    """Core's metadata with the place that it was installed from."""

    def __init__(self, origin: str | None) -> None:
        self.origin = origin

    def read_text(self, filename: str) -> str | None:
        return self.origin if filename == "direct_url.json" else None

    def locate_file(self, path: object) -> Path:
        raise NotImplementedError


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    for folder in ("astuner-core", "plugins/astuner-judges"):
        (tmp_path / "my clone" / folder).mkdir(parents=True)
        (tmp_path / "my clone" / folder / "pyproject.toml").write_text("")
    return tmp_path / "my clone"


def install(monkeypatch: pytest.MonkeyPatch, origin: str | None) -> None:
    monkeypatch.setattr(install_hints, "distribution", lambda _: InstalledCore(origin))


def origin_of(folder: Path, **info: object) -> str:
    return json.dumps({"url": folder.as_uri(), **info})


@pytest.mark.parametrize("editable", [{}, {"editable": True}])
def test_from_a_clone_packages_are_installed_from_it(
    clone: Path, editable: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, origin_of(clone / "astuner-core", dir_info=editable))
    assert install_command("astuner-judges") == f"pip install '{clone}/plugins/astuner-judges'"
    assert install_command("astuner-judges[llm]") == f"pip install '{clone}/plugins/astuner-judges[llm]'"
    assert install_command("astuner-core[rollout]") == f"pip install '{clone}/astuner-core[rollout]'"
    assert command_for("judge", "math") == f"pip install '{clone}/plugins/astuner-judges'"


def test_of_a_clone_only_what_is_in_it(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, origin_of(clone / "astuner-core", dir_info={}))
    assert install_command("astuner-readers") == "pip install astuner-readers"
    assert install_command("acme-judges") == "pip install acme-judges"
    assert install_command("langchain") == "pip install langchain"
    assert install_command("../escape") == "pip install ../escape"


def test_a_version_is_asked_of_the_index(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, origin_of(clone / "astuner-core", dir_info={}))
    assert install_command("astuner-judges==0.2.0") == "pip install astuner-judges==0.2.0"
    assert install_command("astuner-core<0.2,>=0.1") == "pip install 'astuner-core<0.2,>=0.1'"


@pytest.mark.parametrize("origin", [None, "", "{", '{"url": "https://example.com/astuner-core.zip", "archive_info": {}}'])
def test_otherwise_from_the_index(origin: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, origin)
    assert install_command("astuner-judges[llm]") == "pip install 'astuner-judges[llm]'"


def test_a_wheel_in_a_clone_is_no_clone(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, origin_of(clone / "astuner-core" / "astuner_core-0.2.0-py3-none-any.whl", archive_info={}))
    assert install_command("astuner-judges") == "pip install astuner-judges"


def test_a_clone_that_is_gone_is_not_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, origin_of(tmp_path / "gone" / "astuner-core", dir_info={}))
    assert install_command("astuner-judges") == "pip install astuner-judges"


def test_files_that_travel_name_no_place(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, origin_of(clone / "astuner-core", dir_info={}))
    assert install_from_index("astuner-judges[llm]") == "pip install 'astuner-judges[llm]'"


@pytest.mark.parametrize(
    ("spec", "installed", "remedy"),
    [
        ("astuner_agents:Command", False, " It comes with astuner-agents: pip install astuner-agents"),
        ("astuner_wire_apis.responses -> RESPONSES", False, " It comes with astuner-wire-apis: pip install astuner-wire-apis"),
        ("astuner_agents.nothing:Command", True, ""),
        ("acme_agents:Command", False, ""),
        ("astuner.agents:Command", False, ""),
    ],
)
def test_a_class_of_a_package_of_ours_is_answered_with_what_to_install(
    spec: str, installed: bool, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, None)
    monkeypatch.setattr(install_hints, "is_installed", lambda _: installed)
    assert explain_missing_package(spec) == remedy


@pytest.mark.parametrize(
    ("here", "remedy"), [("2.0.11", "'agentscope<2' 'mcp<2' 'openai<3' greenlet"), ("1.0.21", "'agentscope>=2'")]
)
def test_code_for_another_agentscope_is_answered_with_its_release(
    here: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install_hints, "is_installed", lambda _: True)
    monkeypatch.setattr(install_hints, "version", lambda _: here)
    error = ImportError("cannot import name 'ReActAgent' from 'agentscope.agent'", name="agentscope.agent")
    assert explain_missing_module(error).endswith(f"pip install {remedy}")
    assert explain_missing_module(ImportError("no", name="acme.agentscope")) == ""
