"""Errors of the system while a run's files are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from astuner.contract.errors import RunFailed
from astuner.runs.store.atomic import explain_os_errors


def test_what_a_library_in_rust_raises_for_one_has_the_same_remedy(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    place = tmp_path / "model"
    place.mkdir()
    with pytest.raises(RunFailed, match=r"model: Is a directory\. Nothing that was complete is lost"), explain_os_errors(place):
        tokenizer.save(str(place))


def test_other_errors_stay_as_they_are(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="answer"), explain_os_errors(tmp_path):
        raise KeyError("answer")


def test_outside_of_a_run_there_is_nothing_to_resume(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunFailed) as caught, explain_os_errors(tmp_path / "out", of_run=False):
        (tmp_path / "file" / "out").mkdir()
    assert str(caught.value).startswith(f"{tmp_path}/out: Not a directory. Fix the cause")
    assert "--resume" not in str(caught.value)
