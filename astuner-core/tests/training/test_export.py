from __future__ import annotations

import pytest

from astuner.contract.errors import UsageError
from astuner.runs.training.export import export_model


@pytest.fixture
def checkpoint(tmp_path):
    made = tmp_path / "step_3"
    (made / "trainer").mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "state.json"):
        (made / name).write_text(name)
    return made


def test_the_model_is_copied_without_what_training_needs(checkpoint, tmp_path):
    export_model(checkpoint, tmp_path / "out", leave_out=("state.json",))
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["config.json", "model.safetensors"]


def test_a_directory_in_use_is_refused(checkpoint, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    with pytest.raises(UsageError, match="is not an empty directory"):
        export_model(checkpoint, tmp_path / "out")


def test_a_checkpoint_without_a_model_is_refused(checkpoint, tmp_path):
    (checkpoint / "config.json").unlink()
    with pytest.raises(UsageError, match=r"no adapter_config\.json and no config\.json"):
        export_model(checkpoint, tmp_path / "out")
