from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from astuner_tools.doctor.model import model_rows
from astuner_tools.doctor.rows import Row

OFFLINE = {"HF_HUB_OFFLINE": "1"}


def found(path: object, environment: Mapping[str, str] | None = None, *, weightless: bool = False) -> dict[str, Row]:
    return {row.what: row for row in model_rows(str(path), weightless=weightless, environment=environment or {})}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    directory = tmp_path / "model"
    directory.mkdir()
    (directory / "config.json").write_text('{"architectures": ["Qwen2ForCausalLM"]}')
    (directory / "model.safetensors").write_bytes(b"\0" * 100)
    (directory / "tokenizer.json").write_text("{}")
    return directory


def test_a_whole_model_is_ok(model: Path) -> None:
    rows = found(model)
    assert [row.status for row in rows.values()] == ["ok", "ok", "ok"]
    assert rows["config.json"].detail == "Qwen2ForCausalLM"


@pytest.mark.parametrize(
    ("file", "what"), [("config.json", "config.json"), ("model.safetensors", "weights"), ("tokenizer.json", "tokenizer")]
)
def test_each_part_that_is_not_there_is_broken(model: Path, file: str, what: str) -> None:
    (model / file).unlink()
    assert [row.what for row in found(model).values() if row.status == "broken"] == [what]


def test_a_config_that_is_no_json_is_broken(model: Path) -> None:
    (model / "config.json").write_text("version https://git-lfs")
    assert found(model)["config.json"].status == "broken"


def test_a_shard_that_the_index_names_and_is_not_there_is_broken(model: Path) -> None:
    shards = {"a": "model.safetensors", "b": "model-2.safetensors"}
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    row = found(model)["weights"]
    assert (row.status, row.detail) == ("broken", "the index names files that are not there: model-2.safetensors")


def test_a_run_without_weights_is_only_warned(model: Path) -> None:
    (model / "model.safetensors").unlink()
    assert found(model, weightless=True)["weights"].status == "warning"


def test_a_name_in_the_cache_of_the_hub_is_looked_into(tmp_path: Path, model: Path) -> None:
    snapshot = tmp_path / "cache" / "models--org--name" / "snapshots" / "abc"
    snapshot.parent.mkdir(parents=True)
    model.rename(snapshot)
    rows = found("org/name", {"HF_HUB_CACHE": str(tmp_path / "cache"), **OFFLINE})
    assert rows["org/name"].detail == "in the cache of the Hugging Face hub"
    assert rows["weights"].status == "ok"


def test_a_name_that_is_not_in_the_cache_is_downloaded_first(tmp_path: Path) -> None:
    row = found("org/name", {"HF_HOME": str(tmp_path)})["org/name"]
    assert (row.status, row.remedy) == ("warning", "hf download org/name")


def test_a_name_that_is_not_in_the_cache_is_broken_offline(tmp_path: Path) -> None:
    assert found("org/name", {"HF_HOME": str(tmp_path), **OFFLINE})["org/name"].status == "broken"


def test_weights_in_a_pickle_are_broken(model: Path) -> None:
    (model / "model.safetensors").rename(model / "pytorch_model.bin")
    row = found(model)["weights"]
    assert (row.status, row.detail) == (
        "broken",
        f"no *.safetensors in {model}; pytorch_model.bin is a pickle, which is not read",
    )
