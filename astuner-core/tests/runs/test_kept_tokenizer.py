"""A run keeps the tokenizer of its model, so that its ids are text when the model has gone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from astuner.runs.inspection.stored_tokenizer import find_tokenizer
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.kept_tokenizer import keep_tokenizer
from astuner.settings.config.model import Model
from astuner_devkit.tokenizer import tiny_tokenizer


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    (tmp_path / "run").mkdir()
    return RunDirectory(tmp_path / "run")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_ids_are_text_after_the_model_has_gone(run: RunDirectory, model: Path) -> None:
    ids = tiny_tokenizer().encode("what two and two make")
    assert keep_tokenizer(run, Model(path=str(model)))
    shutil.rmtree(model)
    tokenizer = find_tokenizer(run, {"model": {"path": str(model)}})
    assert tokenizer is not None
    assert tokenizer.decode(ids) == "what two and two make"


def test_what_turns_messages_into_ids_is_kept_too(run: RunDirectory, model: Path) -> None:
    (model / "chat_template.jinja").write_text("{{ messages }}")
    (model / "model.safetensors").write_bytes(b"weights")
    keep_tokenizer(run, Model(path=str(model)))
    assert (run.tokenizer / "chat_template.jinja").read_text() == "{{ messages }}"
    assert not (run.tokenizer / "model.safetensors").exists()


def test_a_template_of_the_configuration_is_kept_in_place_of_the_models_own(run: RunDirectory, model: Path) -> None:
    keep_tokenizer(run, Model(path=str(model), chat_template="{{ messages[0].content }}"))
    assert (run.tokenizer / "chat_template.jinja").read_text() == "{{ messages[0].content }}"


def test_adapters_without_a_tokenizer_have_that_of_their_base(run: RunDirectory, model: Path, tmp_path: Path) -> None:
    (tmp_path / "adapters").mkdir()
    (tmp_path / "adapters" / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(model), "r": 4}))
    assert keep_tokenizer(run, Model(path=str(tmp_path / "adapters")))


def test_a_downloaded_model_has_its_files_in_the_cache(run: RunDirectory, model: Path, tmp_path: Path, monkeypatch) -> None:
    constants = pytest.importorskip("huggingface_hub.constants")
    snapshot = tmp_path / "hub" / "models--org--tiny" / "snapshots" / "abc"
    shutil.copytree(model, snapshot)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("abc")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    assert keep_tokenizer(run, Model(path="org/tiny"))
    assert (run.tokenizer / "tokenizer.json").read_bytes() == (model / "tokenizer.json").read_bytes()


@pytest.mark.parametrize("name", ["", "org/never-downloaded", "no such: model?", "/nowhere/at/all"])
def test_without_a_file_nothing_is_copied_and_nothing_fails(run: RunDirectory, name: str) -> None:
    assert not keep_tokenizer(run, Model(path=name))
    assert not run.tokenizer.exists()


def test_the_tokenizer_that_the_run_began_with_stays(run: RunDirectory, model: Path) -> None:
    keep_tokenizer(run, Model(path=str(model)))
    before = (run.tokenizer / "tokenizer.json").read_bytes()
    (model / "tokenizer.json").write_text("{}")
    assert keep_tokenizer(run, Model(path=str(model)))
    assert (run.tokenizer / "tokenizer.json").read_bytes() == before
