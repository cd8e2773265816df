"""The names of `astuner` itself: all there, and none imported before it is used."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

import astuner


def test_importing_astuner_imports_only_where_its_modules_are() -> None:
    code = "import astuner, sys; print([name for name in sys.modules if name.startswith('astuner.')])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "['astuner.moved_modules']\n"
    )


@pytest.mark.parametrize("name", astuner.__all__)
def test_a_public_name_is_there_and_listed(name: str) -> None:
    assert name in dir(astuner)
    assert getattr(astuner, name) is getattr(import_module(f"astuner.{astuner._MODULES[name]}"), name)
