"""What is remembered of a tokenizer's class holds as long as its folder does; and which ids end a turn."""

from __future__ import annotations

from pathlib import Path

import pytest

from astuner.model.rendering.tokenizers import generation_ends
from astuner_devkit.project import write_tokenizer


def test_the_class_is_chosen_anew_where_anything_but_the_weights_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from astuner.model.rendering.tokenizers import _name_folder

    write_tokenizer(tmp_path / "model")
    before = _name_folder(str(tmp_path / "model"))
    (tmp_path / "model/model.safetensors").write_text("new")
    assert _name_folder(str(tmp_path / "model")) == before
    (tmp_path / "model/chat_template.jinja").write_text("new")
    assert _name_folder(str(tmp_path / "model")) != before


def test_a_hub_id_is_always_asked_about() -> None:
    from astuner.model.rendering.tokenizers import _name_folder

    assert _name_folder("org/name") is None


@pytest.mark.parametrize(
    ("stored", "ends"),
    [('{"eos_token_id": 7}', (7,)), ('{"eos_token_id": [7, 8]}', (7, 8)), ("{}", ()), ("no JSON", ()), (None, ())],
)
def test_the_ends_of_a_turn_are_those_of_the_generation_configuration(stored: str | None, ends: object, tmp_path: Path) -> None:
    if stored is not None:
        (tmp_path / "generation_config.json").write_text(stored)
    assert generation_ends(str(tmp_path)) == ends
