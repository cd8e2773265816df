"""What runs before there is a model: a script, without a tokenizer or a network; and what a missing model is answered with."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import ConfigError
from astuner.model.rendering.byte_tokenizer import load_renderer_or_bytes, make_byte_tokenizer
from astuner.settings.planning.plan import plan_run
from astuner_devkit.project import write_project
from astuner_devkit.run_in_process import add_recorder, play

TEXT = '<tool_call>\n{"name": "add"}\n</tool_call> — naïve 漢字\n\n'


def write(folder: Path, **settings: Any) -> Path:
    conf = write_project(folder, settings=settings)
    shutil.rmtree(folder / "model")
    return conf


def test_bytes_are_tokens_and_text_again():
    tokenizer = make_byte_tokenizer()
    ids = tokenizer.encode(TEXT, add_special_tokens=False)
    assert tokenizer.decode(ids) == TEXT
    assert len(ids) == len(TEXT.encode()) - len("<tool_call></tool_call>") + 2


def test_the_tokens_of_a_model_are_taken_where_it_is(tmp_path: Path):
    write_project(tmp_path)
    theirs = load_renderer_or_bytes(str(tmp_path / "model")).tokenizer
    bytes_alone = [load_renderer_or_bytes(name).tokenizer for name in ("acme/nowhere", "")]
    assert [len(tokenizer) for tokenizer in bytes_alone] == [263, 263]
    assert len(theirs) > 263


@pytest.mark.parametrize("path", ["./model", "acme/nowhere", None])
def test_a_script_plays_without_a_model(path: str | None, tmp_path: Path):
    short = {"max_prompt_length": 8, "max_response_length": 8}
    played = play(write(tmp_path, **add_recorder({"model": {"path": path}, "data": short})))
    assert set(played.rewards) == {1.0}
    assert any("each byte is a token" in text for text in played.notices)


@pytest.mark.parametrize("path", ["./model", None])
def test_auto_takes_the_script_as_long_as_there_is_no_model(path: str | None, tmp_path: Path):
    plan = plan_run(write(tmp_path, model={"path": path}, rollout={"name": "auto"}))
    assert plan.recipe.engine is not None
    assert plan.recipe.engine.candidate.name == "scripted"


def test_a_backbone_that_trains_needs_the_model(tmp_path: Path):
    with pytest.raises(ConfigError, match="there is no directory"):
        plan_run(write(tmp_path, backbone="local"))


def test_a_missing_directory_is_answered_with_what_makes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    conf = write(tmp_path / "project", rollout={"name": "auto", "scripted": None})
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"astuner warm-start --conf project/project.yaml .* --tiny --out project/model"):
        plan_run(conf)


def test_a_configuration_without_a_backbone_says_that_it_plays(tmp_path: Path):
    conf = write_project(tmp_path)
    conf.write_text(conf.read_text(encoding="utf-8").replace("  backbone: debug\n", ""), encoding="utf-8")
    assert any(text.startswith("no backbone is named, so 'debug' plays") for text in plan_run(conf).notices)
    assert not any("no backbone" in text for text in plan_run(conf, backbone="debug").notices)
