"""What `astuner export` refuses before anything is loaded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import UsageError
from astuner_devkit.command_line import CommandResult
from astuner_tools.exporting.gguf_model import check_convertible
from astuner_tools.exporting.gguf_tokenizer import list_end_tokens

Cli = Callable[..., CommandResult]
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--dtype", "q8_0"), "--dtype q8_0 is a precision of GGUF files: add --format gguf"),
        (("--format", "gguf", "--merge-lora"), "--merge-lora is the same as --format hf"),
        (("--format", "adapter", "--dtype", "float32"), "an adapter without its base keeps its own precision"),
        (("--push", "model"), "--push model: must be OWNER/NAME"),
        (("--base", "../model"), "--base ../model: must be OWNER/NAME"),
        (("--public",), "--public is for --push"),
    ],
    ids=str,
)
def test_options_that_do_not_go_together(cli: Cli, words: tuple[str, ...], message: str) -> None:
    ended = cli("export", "run", "--out", "out", *words)
    assert ended.code == 2
    assert message in ended.err


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """A model's folder without weights: `folder(architecture=…, pre_tokenizer=…)`."""

    def write(architecture: str = "LlamaForCausalLM", *, more: Any = None, normalizer: Any = None, **tokenizer: Any) -> Path:
        (tmp_path / "config.json").write_text(json.dumps({"architectures": [architecture], "eos_token_id": 3, **(more or {})}))
        model = {"type": "BPE", "vocab": {}, "merges": [], "byte_fallback": False, **tokenizer.pop("model", {})}
        added = [{"id": 2, "content": "<|end|>", "special": True}]
        document = {"model": model, "pre_tokenizer": BYTES, "normalizer": normalizer, "added_tokens": added, **tokenizer}
        (tmp_path / "tokenizer.json").write_text(json.dumps(document))
        return tmp_path

    return write


def test_a_model_that_llama_cpp_has_is_convertible(folder: Callable[..., Path]) -> None:
    assert check_convertible(folder())[0].name == "llama"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"architecture": "MambaForCausalLM"}, "this model is MambaForCausalLM"),
        ({"more": {"use_sliding_window": True}}, "has use_sliding_window"),
        ({"more": {"rope_scaling": {"type": "yarn", "factor": 4.0}}}, "rotary embeddings of type yarn"),
        ({"model": {"type": "Unigram"}}, "this is Unigram"),
        ({"model": {"byte_fallback": True}}, "llama.cpp has no byte_fallback"),
        ({"model": {"ignore_merges": True}}, "splits text in a way that is not one of"),
        ({"normalizer": {"type": "Lowercase"}}, "does not normalize text as this tokenizer does (Lowercase)"),
        ({"pre_tokenizer": {**BYTES, "add_prefix_space": True}}, "splits text in a way that is not one of gpt-2, llama-bpe,"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, '{"type": "Whitespace"}'),
    ],
    ids=str,
)
def test_what_it_does_not_have_is_refused(folder: Callable[..., Path], changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as refused:
        check_convertible(folder(**changes))
    assert message in str(refused.value)
    assert "--format hf" in str(refused.value)


def test_the_tokenizers_own_end_goes_first(folder: Callable[..., Path]) -> None:
    home = folder()
    (home / "tokenizer_config.json").write_text(json.dumps({"eos_token": {"content": "<|end|>"}}))
    (home / "generation_config.json").write_text(json.dumps({"eos_token_id": [5, 2]}))
    assert list_end_tokens(home, {"eos_token_id": 3}) == [2, 5]
    (home / "generation_config.json").unlink()
    assert list_end_tokens(home, {"eos_token_id": 3}) == [2, 3]
