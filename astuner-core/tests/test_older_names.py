"""Names of releases before 0.1, and modules that have moved since."""

from __future__ import annotations

import importlib
import importlib.util

import pytest

import astuner
from astuner.moved_modules import find_present_name


@pytest.mark.parametrize("name", ["ModelTuner", "AstunerJob"])
def test_an_import_of_an_older_name_says_what_to_write(name: str) -> None:
    with pytest.raises(ImportError, match=f"astuner.{name} is a name of releases before 0.1: write `from astune import"):
        exec(f"from astuner import {name}", {})


def test_other_names_are_missing_as_usual() -> None:
    assert not hasattr(astuner, "no_such_name")
    with pytest.raises(ImportError, match="cannot import name 'no_such_name'"):
        exec("from astuner import no_such_name", {})


@pytest.mark.parametrize(
    ("old", "says"),
    [
        ("astuner.schema", r"astuner.schema is now astuner\.contract\.schema \(docs/api\.md"),
        ("astuner.protocols.optional", r"astuner\.protocols is now astuner\.contract\.protocols \("),
        ("astuner.testing", r"is now astuner_devkit, from the package astuner-devkit "),
        ("astuner.testing.contracts", r"astuner\.testing is now astuner_devkit, from the package astuner-devkit "),
        ("astuner.handover.outputs", r"astuner\.handover is now astuner\.contract\.user_values "),
    ],
)
def test_an_import_of_a_moved_module_says_where_it_is(old: str, says: str) -> None:
    with pytest.raises(ImportError, match=says):
        importlib.import_module(old)


def test_a_moved_package_is_named_where_it_is_imported_from() -> None:
    with pytest.raises(ImportError, match=r"astuner\.testing is now astuner_devkit"):
        exec("from astuner import testing", {})


def test_another_missing_module_is_missing_as_usual() -> None:
    assert importlib.util.find_spec("astuner.no_such_module") is None


@pytest.mark.parametrize("old", ["astuner.schema", "astuner.config.loading", "astuner.players.group_runner"])
def test_what_a_moved_module_is_called_now_exists(old: str) -> None:
    present = find_present_name(old)
    assert present is not None
    assert importlib.util.find_spec(present) is not None
