"""Names of releases before 0.1."""

from __future__ import annotations

import pytest

import astuner


@pytest.mark.parametrize("name", ["ModelTuner", "AstunerJob"])
def test_an_import_of_an_older_name_says_what_to_write(name: str) -> None:
    with pytest.raises(ImportError, match=f"astuner.{name} is a name of releases before 0.1: write `from astune import"):
        exec(f"from astuner import {name}", {})


def test_other_names_are_missing_as_usual() -> None:
    assert not hasattr(astuner, "no_such_name")
    with pytest.raises(ImportError, match="cannot import name 'no_such_name'"):
        exec("from astuner import no_such_name", {})
