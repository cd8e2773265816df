"""`astuner model fetch --from`: a tiny model's file becomes a folder that Hugging Face tools load."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGUFReader
from kill_points import kill_before_each_change
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from astuner.cli import exit_code_of
from astuner.contract.errors import AstunerError, ConfigError, RunFailed, UsageError
from astuner_local.pretrained import fetching
from astuner_local.pretrained.fetching import fetch_model, find_model_folder, shorten_home
from astuner_local.pretrained.forward_check import check_forward
from astuner_local.pretrained.known_models import read_known_models

MakeGguf = Callable[..., Path]


def fetch(file: Path, out: Path, *more: str) -> int:
    return exit_code_of(["model", "fetch", "tiny", "--from", str(file), "--out", str(out), *more])


def test_weights_are_those_of_the_file(make_gguf: MakeGguf, tmp_path: Path) -> None:
    file = make_gguf()
    assert fetch(file, tmp_path / "out") == 0
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    there = {one.name: np.array(one.data) for one in GGUFReader(file).tensors}
    found = model.get_input_embeddings().weight.detach().numpy(), model.model.layers[0].mlp.up_proj.weight.detach().numpy()
    assert np.array_equal(found[0], there["token_embd.weight"])
    assert np.array_equal(found[1], there["blk.0.ffn_up.weight"])
    assert model.dtype == torch.float32


def test_the_folder_has_template_end_and_splitting_after_loading(make_gguf: MakeGguf, tmp_path: Path) -> None:
    fetch(make_gguf(), tmp_path / "out")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert tokenizer.tokenize("a 12\n\n12") == ["a", "Ġ", "1", "2", "ĊĊ", "1", "2"]
    shown = tokenizer.apply_chat_template([{"role": "user", "content": "the"}], add_generation_prompt=True, tokenize=False)
    assert shown == "<|im_start|>user\nthe<|im_end|>\n<|im_start|>assistant\n"
    assert GenerationConfig.from_pretrained(tmp_path / "out").eos_token_id == tokenizer.eos_token_id == 2
    assert tokenizer.model_max_length == 64


def test_the_end_of_a_turn_ends_an_answer_too(make_gguf: MakeGguf, tmp_path: Path) -> None:
    fetch(make_gguf(end=0, turn_end=2), tmp_path / "out")
    assert GenerationConfig.from_pretrained(tmp_path / "out").eos_token_id == [0, 2]


def test_numbers_of_the_configuration_have_the_digits_that_they_were_written_with(make_gguf: MakeGguf, tmp_path: Path) -> None:
    fetch(make_gguf(), tmp_path / "out")
    config = AutoConfig.from_pretrained(tmp_path / "out")
    assert config.rms_norm_eps == 1e-5
    assert not hasattr(config, "quantization_config")


def test_half_precision_halves_the_file(make_gguf: MakeGguf, tmp_path: Path) -> None:
    file = make_gguf()
    fetch(file, tmp_path / "whole")
    fetch(file, tmp_path / "half", "--dtype", "bfloat16")
    whole, half = ((tmp_path / name / "model.safetensors").stat().st_size for name in ("whole", "half"))
    assert 0.4 < half / whole < 0.6
    assert AutoConfig.from_pretrained(tmp_path / "half").dtype == torch.bfloat16


def test_files_have_ordinary_modes(make_gguf: MakeGguf, tmp_path: Path) -> None:
    (tmp_path / "ordinary").touch()
    expected = stat.S_IMODE((tmp_path / "ordinary").stat().st_mode)
    fetch(make_gguf(), tmp_path / "out")
    assert {stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "out").iterdir()} == {expected}


def test_a_finished_folder_is_left_as_it_is(
    make_gguf: MakeGguf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = make_gguf()
    fetch(file, tmp_path / "out")
    monkeypatch.setattr(fetching, "_convert_checked", lambda *_: pytest.fail("made again"))
    capsys.readouterr()
    assert fetch(file, tmp_path / "out") == 0
    assert "is there already" in capsys.readouterr().out


def test_a_folder_of_another_file_is_not_replaced(
    make_gguf: MakeGguf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fetch(make_gguf(), tmp_path / "out")
    assert fetch(make_gguf("other.gguf", turn_end=0), tmp_path / "out") == 2
    assert "exists and is not an empty directory" in capsys.readouterr().err


def test_it_says_where_the_model_is_its_size_and_what_to_write(
    make_gguf: MakeGguf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    fetch(make_gguf(), out)
    said = capsys.readouterr().out
    assert f"{out}: tiny, 0.1 M parameters" in said
    assert f"model: {{path: {out}}}" in said
    assert "quickstart" not in said


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"splitting": "viking"}, "splits texts as 'viking'"),
        ({"splitting": None}, "does not name how texts are split"),
        ({"template": None}, "has no chat template, which agents need"),
        ({"kind": "llama"}, "has a tokenizer of kind 'llama'; only byte-level BPE"),
        ({"end": None}, "names no token that ends an answer"),
        ({"architecture": "wavtokenizer-dec"}, "cannot be loaded"),
        ({"tokens": ["<|a|>", "<|b|>", "<|c|>", "<|d|>", "a"]}, "cannot be loaded"),
    ],
)
def test_a_file_that_cannot_be_converted_is_refused_and_nothing_is_left(
    make_gguf: MakeGguf, tmp_path: Path, options: dict[str, str], why: str
) -> None:
    with pytest.raises((UsageError, ConfigError), match=why):
        fetch_model("tiny", tmp_path / "place" / "out", make_gguf(**options), say=lambda _: None)
    assert list((tmp_path / "place").iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"GGUF", b"not a model at all" * 100])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file.gguf").write_bytes(content)
    with pytest.raises(UsageError, match=r"file\.gguf: is not a whole GGUF file"):
        fetch_model("tiny", tmp_path / "out", tmp_path / "file.gguf", say=lambda _: None)


def test_half_a_file_is_refused(make_gguf: MakeGguf, tmp_path: Path) -> None:
    file = make_gguf()
    whole = file.read_bytes()
    for share in (0.05, 0.5, 0.95):
        file.write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(AstunerError, match=r"tiny\.gguf"):
            fetch_model("tiny", tmp_path / "out", file, say=lambda _: None)


def test_a_file_that_is_not_the_model_of_this_name_is_refused(make_gguf: MakeGguf, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not SmolLM2-135M-Instruct: it splits texts as 'qwen2'"):
        fetch_model("smollm2-135m", tmp_path / "out", make_gguf(splitting="qwen2"), say=lambda _: None)


def test_random_weights_are_not_the_model_of_this_name(make_gguf: MakeGguf, tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="the converted model is not SmolLM2-135M-Instruct: after 'The capital of France is'"):
        fetch_model("smollm2-135m", tmp_path / "out", make_gguf(), say=lambda _: None)
    assert not (tmp_path / "out").exists()


def test_a_model_that_computes_no_numbers_is_refused(make_gguf: MakeGguf, tmp_path: Path) -> None:
    fetch(make_gguf(), tmp_path / "out")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    model.model.norm.weight.data.fill_(float("nan"))
    model.save_pretrained(tmp_path / "out")
    with pytest.raises(RunFailed, match="computes no finite numbers"):
        check_forward(tmp_path / "out", None)


def test_an_unknown_name_is_answered_with_the_known_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["model", "fetch", "no-such-model", "--out", str(tmp_path / "out")]) == 2
    assert f"no model 'no-such-model'; there are: {', '.join(read_known_models())}." in capsys.readouterr().err


def test_a_killed_fetch_leaves_no_half_model(make_gguf: MakeGguf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, place = make_gguf(), tmp_path / "place"
    monkeypatch.setattr(fetching, "_convert_checked", lambda file, out, *_: (out / "model.safetensors").write_bytes(b"weights"))

    def run() -> None:
        fetch_model("tiny", place / "out", file, say=lambda _: None)

    for killed in kill_before_each_change(run, place):
        assert not (place / "out").exists() or (place / "out" / fetching.RECORD).is_file(), killed
        shutil.rmtree(place / "out", ignore_errors=True)
    assert [path.name for path in place.iterdir()] == ["out"]


def test_models_lie_in_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert find_model_folder("m") == tmp_path / ".cache" / "astuner" / "models" / "m"
    assert shorten_home(find_model_folder("m")) == "~/.cache/astuner/models/m"
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert shorten_home(find_model_folder("m")) == "/elsewhere/astuner/models/m"


def test_the_command_is_imported_without_anything_heavy() -> None:
    code = (
        "import sys, astuner_local.pretrained.commands, astuner_local.pretrained.fetching\n"
        "print([name for name in ('torch', 'transformers', 'numpy', 'gguf') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_what_a_folder_was_made_from_is_recorded(make_gguf: MakeGguf, tmp_path: Path) -> None:
    fetch(make_gguf(), tmp_path / "out")
    record = json.loads((tmp_path / "out" / fetching.RECORD).read_text())
    assert (record["model"], record["file"], record["dtype"]) == ("tiny", "tiny.gguf", "float32")
