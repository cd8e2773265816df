"""What only asks which plugins there are imports none of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from astuner.cli import exit_code_of
from astuner.settings.plugins.kinds import KINDS
from astuner_devkit.project import write_project

Install = Callable[..., Path]


@pytest.fixture
def unimportable(install: Install) -> None:
    """A distribution with a component of every kind, none of which can be imported."""
    groups = [group for group in KINDS.values() if group is not None]
    files = {"acme_unimportable.py": "raise RuntimeError('imported')"}
    install("acme", files=files, entry_points={group: {"acme": "acme_unimportable:Acme"} for group in groups})


@pytest.mark.usefixtures("unimportable")
@pytest.mark.parametrize("arguments", [["--help"], ["plugin", "list"], ["plugin", "list", "--json"]])
def test_listing_imports_no_plugin(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(arguments) == 0
    assert "acme" in capsys.readouterr().out
    assert "acme_unimportable" not in sys.modules


@pytest.mark.usefixtures("unimportable")
def test_validating_imports_no_plugin_that_the_configuration_does_not_name(tmp_path: Path) -> None:
    assert exit_code_of(["config", "validate", "--conf", str(write_project(tmp_path))]) == 0
    assert "acme_unimportable" not in sys.modules


@pytest.mark.usefixtures("unimportable")
def test_validating_imports_the_plugin_that_the_configuration_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["config", "validate", "--conf", str(write_project(tmp_path, "acme"))]) == 2
    assert "RuntimeError: imported" in capsys.readouterr().err
