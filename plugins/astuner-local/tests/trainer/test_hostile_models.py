"""Directories of models that bring code, hold pickles or are broken: none of their code runs, and each is refused in one line."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from astuner.contract.errors import ConfigError
from astuner.model.rendering import load_renderer
from astuner_devkit.tokenizer import tiny_tokenizer
from astuner_local.engine.serving import load
from astuner_local.trainer.model_io import check_tokenizer, load_model, read_config, save_hf

MARK = "ran.txt"


@pytest.fixture
def model(make_model: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("builtins.input", lambda _: "y")
    home = tmp_path / "model"
    save_hf(make_model(), tiny_tokenizer(), home)
    return home


class Hostile:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {MARK}",)


def change(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def configure(**changes: Any) -> Callable[[Path], None]:
    return lambda home: change(home / "config.json", **changes)


def write(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda home: (home / name).write_bytes(content)


def bring_code(home: Path, model_type: str) -> None:
    (home / "evil.py").write_text(f"open({MARK!r}, 'w')\nfrom transformers import PretrainedConfig as C, PreTrainedModel as M\n")
    names = {"AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.M", "AutoTokenizer": [None, "evil.T"]}
    change(home / "config.json", auto_map=names, model_type=model_type)


def pickle_weights(home: Path) -> None:
    (home / "model.safetensors").unlink()
    (home / "pytorch_model.bin").write_bytes(pickle.dumps({"model": Hostile()}))


def keep_weights_in_a_pickle(home: Path) -> None:
    torch.save(load_file(home / "model.safetensors"), home / "pytorch_model.bin")
    (home / "model.safetensors").unlink()


def pickle_shards(home: Path) -> None:
    keep_weights_in_a_pickle(home)
    (home / "pytorch_model.bin").rename(home / "pytorch_model-00001-of-00001.bin")
    index = {"metadata": {}, "weight_map": {"lm_head.weight": "pytorch_model-00001-of-00001.bin"}}
    (home / "pytorch_model.bin.index.json").write_text(json.dumps(index))


def lose_a_shard(home: Path) -> None:
    (home / "model.safetensors").rename(home / "model-00001-of-00002.safetensors")
    parts = {f"weight{number}": f"model-0000{number}-of-00002.safetensors" for number in (1, 2)}
    (home / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": parts}))


def truncate(home: Path) -> None:
    file = home / "model.safetensors"
    file.write_bytes(file.read_bytes()[:2000])


KERNEL = "kernels-community/flash-attn"
MODELS: Mapping[str, tuple[Callable[[Path], object], str]] = {
    "code of an unknown type": (lambda home: bring_code(home, "evil"), "brings code of its own"),
    "pickle": (pickle_weights, "weights in a pickle"),
    "honest pickle": (keep_weights_in_a_pickle, "write it again with save_pretrained"),
    "pickled shards": (pickle_shards, "weights in a pickle"),
    "kernels of the hub": (configure(_attn_implementation=KERNEL), "_attn_implementation asks for code"),
    "kernels of the hub, other name": (configure(attn_implementation=KERNEL), "attn_implementation asks for code"),
    "kernels of a part": (configure(text_config={"_attn_implementation": {"": KERNEL}}), "asks for code"),
    "kernels of experts": (configure(_experts_implementation=KERNEL), "_experts_implementation asks for code"),
    "quantized": (configure(quantization_config={"quant_method": "gptq", "bits": 4}), "cannot be loaded"),
    "negative vocabulary": (configure(vocab_size=-1), "cannot be loaded"),
    "no layers": (configure(num_hidden_layers="two"), "cannot be loaded"),
    "heads that do not divide": (configure(num_attention_heads=0), "cannot be loaded"),
    "list": (write("config.json", b"[]"), "must hold a JSON object"),
    "empty": (write("config.json", b""), "is not valid JSON"),
    "not UTF-8": (write("config.json", b"\xff\xfe{}"), "is not valid JSON"),
    "deep": (write("config.json", b"[" * 100_000), "is not valid JSON"),
    "half": (write("config.json", b'{"model_type": '), "is not valid JSON"),
    "truncated weights": (truncate, "cannot be loaded"),
    "empty weights": (write("model.safetensors", b""), "cannot be loaded"),
    "text for weights": (write("model.safetensors", b"version https://git-lfs.github.com/spec/v1\n" * 9), "cannot be loaded"),
    "missing shard": (lose_a_shard, "cannot be loaded"),
    "index that is a list": (write("model.safetensors.index.json", b"[]"), ""),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("door", [load_model, lambda path: load(str(path), "auto")], ids=["trainer", "engine"])
def test_a_hostile_or_broken_model_is_refused_in_one_line(
    door: Callable[[Path], Any], name: str, model: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    harm, said = MODELS[name]
    harm(model)
    if not said:
        door(model)
        return
    with pytest.raises(ConfigError, match=said) as caught:
        door(model)
    assert "\n" not in str(caught.value).strip()
    assert str(model) in str(caught.value)
    assert "[y/N]" not in capfd.readouterr().out
    assert not Path(MARK).exists()


TOKENIZERS: Mapping[str, Callable[[Path], object]] = {
    "tokenizer that is text": write("tokenizer.json", b"hello"),
    "tokenizer of another kind": write("tokenizer.json", b'{"version": "1.0", "model": {"type": "Evil"}}'),
    "list": write("tokenizer_config.json", b"[]"),
    "not UTF-8": write("tokenizer_config.json", b"\xff"),
    "list of ends": write("generation_config.json", b"[]"),
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_broken_tokenizer_is_refused_in_one_line(name: str, model: Path) -> None:
    TOKENIZERS[name](model)
    with pytest.raises(ConfigError) as caught:
        load_renderer(str(model))
    assert "\n" not in str(caught.value).strip()


def test_ends_that_are_no_numbers_are_left_out(model: Path) -> None:
    (model / "generation_config.json").write_text('{"eos_token_id": ["a", null, 2]}')
    load_renderer(str(model))


def test_code_of_a_known_type_is_not_run(model: Path) -> None:
    bring_code(model, "qwen2")
    change(model / "tokenizer_config.json", auto_map={"AutoTokenizer": [None, "evil.T"]}, tokenizer_class="EvilTokenizer")
    (model / "custom_generate").mkdir()
    (model / "custom_generate" / "generate.py").write_text(f"open({MARK!r}, 'w')")
    load_model(model)
    load(str(model), "auto")
    load_renderer(str(model))
    assert not Path(MARK).exists()


def test_a_pickle_next_to_safetensors_is_not_read(model: Path) -> None:
    (model / "pytorch_model.bin").write_bytes(pickle.dumps({"model": Hostile()}))
    load_model(model)
    assert not Path(MARK).exists()


def test_adapters_in_a_pickle_are_refused(model: Path, tmp_path: Path) -> None:
    adapters = tmp_path / "adapters"
    save_hf(load_model(model, lora_rank=2), tiny_tokenizer(), adapters)
    (adapters / "adapter_model.safetensors").unlink()
    (adapters / "adapter_model.bin").write_bytes(pickle.dumps({"model": Hostile()}))
    with pytest.raises(ConfigError, match="weights in a pickle"):
        load_model(adapters)
    assert not Path(MARK).exists()


def test_adapters_that_name_a_module_are_refused(model: Path, tmp_path: Path) -> None:
    adapters = tmp_path / "adapters"
    save_hf(load_model(model, lora_rank=2), tiny_tokenizer(), adapters)
    (tmp_path / "evil.py").write_text(f"open({MARK!r}, 'w')")
    change(adapters / "adapter_config.json", megatron_config={}, megatron_core="evil")
    with pytest.raises(ConfigError, match="megatron_core asks for code"):
        load_model(adapters)
    assert not Path(MARK).exists()


def test_a_configuration_alone_is_read_without_weights(model: Path) -> None:
    keep_weights_in_a_pickle(model)
    assert read_config(str(model)).model_type == "qwen2"
    shutil.rmtree(model)


def test_the_tokenizer_of_another_model_is_refused(model: Path) -> None:
    renderer = load_renderer(str(model))
    with pytest.raises(ConfigError, match=r"belongs to another model: it makes the token id \d+, and the model has 61"):
        check_tokenizer(load_model(model), renderer, model)
